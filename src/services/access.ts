// A running gateway as plugins see it (GatewayAccess): what they may read, hear and hand in, and nothing that stops it.
import type { Gateway } from '../gateway/gateway'
import type { GatewayAccess } from './contract'

/** The same for one plugin: what its listeners throw or reject is told to `failed`, and the next event comes all the same. */
export function guardedAccess(
  access: GatewayAccess,
  failed: (thrown: unknown) => void,
  as: (call: () => unknown) => unknown = call => call(),
): GatewayAccess {
  const guard =
    <T>(listener: (event: T) => unknown) =>
    (event: T): void => {
      try {
        Promise.resolve(as(() => listener(event))).catch(failed)
      } catch (thrown) {
        failed(thrown)
      }
    }
  return {
    ...access,
    onFact: listener => access.onFact(guard(listener)),
    onPacket: listener => access.onPacket(guard(listener)),
    onSent: listener => access.onSent(guard(listener)),
    onLink: listener => access.onLink(guard(listener)),
  }
}

export const accessOf = (gateway: Gateway): GatewayAccess => ({
  status: () => gateway.status(),
  submit: (readings, options) => gateway.submit(readings, options),
  readable: packet => gateway.readable(packet),
  onFact: listener => gateway.events.onFact(listener),
  onPacket: listener => gateway.events.onPacket(listener),
  onSent: listener => gateway.events.onSent(listener),
  onLink: listener => gateway.events.onLink(listener),
})
