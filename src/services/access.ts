// A running gateway as one plugin sees it: GatewayAccess and nothing more, whatever it is made of.
import type { GatewayAccess } from './contract'

/** What its listeners throw or reject goes to `failed`, and the next event comes all the same. */
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
    status: () => access.status(),
    links: () => access.links(),
    submit: (readings, options) => access.submit(readings, options),
    readable: packet => access.readable(packet),
    onFact: listener => access.onFact(guard(listener)),
    onPacket: listener => access.onPacket(guard(listener)),
    onSent: listener => access.onSent(guard(listener)),
    onLink: listener => access.onLink(guard(listener)),
  }
}
