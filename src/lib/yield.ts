// Yields to the event loop between the parts of a long start, so that a client that has connected is accepted and
// answered.
import { setTimeout as sleep } from 'node:timers/promises'

/** enough for a request on this machine, and short enough not to be noticed */
const TURN_MS = 2

/** turns of the loop per yield: for a connection, its request, and further parts of the request */
const LOOKS = 3

/** Resolves in the next turn of the loop. */
export const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Resolves when the loop has handled what was waiting. */
export async function yieldToLoop(): Promise<void> {
  await sleep(TURN_MS)
  for (let k = 0; k < LOOKS; k++) await nextTurn()
}
