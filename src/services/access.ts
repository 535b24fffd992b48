// The part of a running gateway that a plugin may use: GatewayAccess and nothing more.
import type { GatewayAccess } from './contract'

/** Errors and rejections of the listeners are passed to `failed`, and later events are still delivered. */
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
