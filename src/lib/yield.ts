// A long start in one piece answers nobody. Between its parts the event loop gets its turn: who connected meanwhile is
// accepted, read and answered.
import { setTimeout as rest } from 'node:timers/promises'

/** long enough for a request on this machine, too short for anybody to miss */
const TURN_MS = 2

/** Settles when the loop has taken what waits. */
export const turn = (): Promise<void> => rest(TURN_MS)
