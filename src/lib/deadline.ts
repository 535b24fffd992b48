// One deadline for all that waits: a promise, and what happens when it is not settled in time. The timer never outlives the
// wait. What the work does after its deadline is ignored, its error too.
import { OsError } from './errors'
import type { Timers } from './timers'

/** `work`, or after `ms` what `late` returns or throws. */
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
