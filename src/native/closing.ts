// Closing what may wait for its hardware: the last close of a serial port waits up to 30 s for bytes that flow control holds
// back, and tells a USB adapter to drop its lines. That is done by a thread of its own, never by one of libuv's pool (D11).
//
// What fails: no addon, or no thread to be had: the error of the kernel, and the descriptor is still open.
import { closeSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { Bus } from './bus'

/** how often a closing that goes on is looked after, in ms */
const LOOK_MS = 10

/**
 * Gives up the descriptor at once and closes what is behind it elsewhere; resolves when that is over. Does not keep the
 * process from ending. Rejects with E_NO_ADDON or the kernel's error; the descriptor is then as it was.
 */
export async function closeAside(fd: number): Promise<void> {
  // the thread has a duplicate: this close is not the last one, and waits for nothing
  const bus = new Bus(`descriptor ${fd}`, {}, fd)
  closeSync(fd)
  bus.close()
  await new Promise(setImmediate)
  while (!bus.ended) await wait(LOOK_MS, undefined, { ref: false })
}
