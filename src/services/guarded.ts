// Guards calls into plugins: errors become an OsError, and a call that does not return times out. The call itself cannot be
// stopped, so its later result is ignored.
import { timeout, within } from '../lib/deadline'
import { asOsError, OsError } from '../lib/errors'
import { systemTimers, type Timers } from '../lib/timers'

/** Runs a call of a plugin. Throws TIMEOUT after `limitMs`, PLUGIN_FAILED with what the plugin threw. */
export async function guarded<T>(
  what: string,
  limitMs: number,
  call: () => T | Promise<T>,
  timers: Timers = systemTimers,
): Promise<T> {
  try {
    return await within(timers, limitMs, Promise.resolve().then(call), timeout(`${what} did not end`, limitMs))
  } catch (thrown) {
    if (thrown instanceof OsError) throw thrown
    throw new OsError('PLUGIN_FAILED', `${what} failed: ${asOsError(thrown).message}`, { cause: thrown })
  }
}
