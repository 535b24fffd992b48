// Work in parts, so that a large file does not block the event loop: other callers can run between parts
// (S21). The same steps run without yielding where nothing else waits: at the start, and in a command.
import { yieldToLoop } from './yield'

/** Steps that yield at the end of a part; some yield a promise to wait for before the next part. */
export type Parts<T> = Generator<(() => Promise<void>) | undefined, T, void>

/** Tokens or keys per part: some milliseconds on a small board. */
export const PART = 1000

/** small changes need not yield: minimum work before yielding */
const WORK_MS = 5

/** Runs all parts without yielding; promises are skipped. */
export function atOnce<T>(parts: Parts<T>): T {
  for (;;) {
    const step = parts.next()
    if (step.done) return step.value
  }
}

/** Runs the parts with turns of the event loop in between. A rejected promise is thrown where it was yielded. */
export async function inTurns<T>(parts: Parts<T>): Promise<T> {
  let since = performance.now()
  for (let step = parts.next(); ; ) {
    if (step.done) return step.value
    let failed: { error: unknown } | undefined
    if (step.value || performance.now() - since >= WORK_MS) {
      await (step.value ?? yieldToLoop)().catch((error: unknown) => {
        failed = { error }
      })
      since = performance.now()
    }
    step = failed ? parts.throw(failed.error) : parts.next()
  }
}
