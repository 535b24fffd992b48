// Work that is cut into parts, so that a large configuration does not keep the event loop: other callers get their turn
// wherever a part ends (S21). The same steps run at once where nothing else waits: at the start, and in a command.
import { turn } from '../lib/yield'

/** Steps that yield where a part ends, some with what has to be waited for before the next. */
export type Parts<T> = Generator<(() => Promise<void>) | undefined, T, void>

/** Tokens or keys that one part looks at: some milliseconds on a small board. */
export const PART = 1000

/** Small changes have many parts and need no turn: work before others get theirs. */
const WORK_MS = 5

/** All parts in one piece; what they would wait for is left out. */
export function atOnce<T>(parts: Parts<T>): T {
  for (;;) {
    const step = parts.next()
    if (step.done) return step.value
  }
}

/** The parts with turns of the event loop between them. What was waited for in vain is thrown where it was yielded. */
export async function inTurns<T>(parts: Parts<T>): Promise<T> {
  let since = performance.now()
  for (let step = parts.next(); ; ) {
    if (step.done) return step.value
    let failed: { error: unknown } | undefined
    if (step.value || performance.now() - since >= WORK_MS) {
      await (step.value ?? turn)().catch((error: unknown) => {
        failed = { error }
      })
      since = performance.now()
    }
    step = failed ? parts.throw(failed.error) : parts.next()
  }
}
