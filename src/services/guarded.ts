// Calls into plugins: whatever they throw becomes an OsError, and one that does not come back is given up. The call itself
// cannot be ended, so what it does after its time counts for nothing.
import { asOsError, OsError } from '../lib/errors'
import { systemTimers, type Timers } from '../links/timers'

/** Runs a call of a plugin. Throws TIMEOUT after `limitMs`, PLUGIN_FAILED with what the plugin threw. */
export async function within<T>(
  what: string,
  limitMs: number,
  call: () => T | Promise<T>,
  timers: Timers = systemTimers,
): Promise<T> {
  let cancel = (): void => undefined
  const late = new Promise<never>((_, reject) => {
    cancel = timers.after(limitMs, () =>
      reject(new OsError('TIMEOUT', `${what} did not end within ${limitMs / 1000} s`)),
    )
  })
  try {
    return await Promise.race([Promise.resolve().then(call), late])
  } catch (thrown) {
    if (thrown instanceof OsError) throw thrown
    throw new OsError('PLUGIN_FAILED', `${what} failed: ${asOsError(thrown).message}`, { cause: thrown })
  } finally {
    cancel()
  }
}
