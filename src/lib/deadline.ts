// A deadline for a promise: what happens if it is not settled in time. The timer never outlives the wait. The result or
// error of the work after its deadline is ignored.
import { OsError } from './errors'
import type { Timers } from './timers'

/** `work`, or after `ms` the result or error of `late`. */
export async function within<T, L = never>(
  timers: Timers,
  ms: number,
  work: Promise<T>,
  late: () => L | Promise<L>,
): Promise<T | L> {
  let cancel = (): void => undefined
  const over = new Promise<void>(resolve => {
    cancel = timers.after(ms, resolve)
  }).then(late)
  try {
    return await Promise.race([work, over])
  } finally {
    cancel()
  }
}

/** For `within`: throws TIMEOUT, "`what` within N s". */
export const timeout = (what: string, ms: number) => (): never => {
  throw new OsError('TIMEOUT', `${what} within ${ms / 1000} s`)
}
