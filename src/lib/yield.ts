// Yields to the event loop between the parts of a long start: a client that connected meanwhile is
// accepted, read and answered.
import { setTimeout as sleep } from 'node:timers/promises'

/** long enough for a request on this machine, too short for anybody to miss */
const TURN_MS = 2

/** Settles when the loop has taken what waits. */
export const turn = (): Promise<void> => sleep(TURN_MS)
