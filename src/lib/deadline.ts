// A deadline for a promise: what happens if it is not settled in time. The timer never outlives the wait. The result or
// error of the work after its deadline is ignored.
import { OsError } from './errors'
import type { Timers } from './timers'

/** `work`, or after `ms` the result or error of `late`. */
export function within<T, L = never>(
  timers: Timers,
  ms: number,
  work: Promise<T>,
  late: () => L | Promise<L>,
): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => void new Promise<L>(done => done(late())).then(resolve, reject))
    const settle =
      <V>(end: (value: V) => void) =>
      (value: V): void => {
        cancel()
        end(value)
      }
    work.then(settle(resolve), settle(reject))
  })
}

/** For `within`: throws TIMEOUT, "`what` within N s". */
export const timeout = (what: string, ms: number) => (): never => {
  throw new OsError('TIMEOUT', `${what} within ${ms / 1000} s`)
}
