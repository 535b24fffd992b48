// Yields to the event loop between the parts of a long start: a client that connected meanwhile is
// accepted, read and answered.
import { setImmediate as next, setTimeout as sleep } from 'node:timers/promises'

/** long enough for a request on this machine, too short for anybody to miss */
const TURN_MS = 2

/** The loop looks for what came that often: a connection, its request, the rest of one in parts. */
const LOOKS = 3

/** Settles when the loop has taken what waits. */
export async function turn(): Promise<void> {
  await sleep(TURN_MS)
  for (let k = 0; k < LOOKS; k++) await next()
}
