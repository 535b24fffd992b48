// A program of the packages that does for the service what it has no right to do, or not the time (drivers/native/helper). systemd starts it
// at a connection to its packet socket; a request is one packet, and the answer a descriptor or an error of the system.
//
// Errors: no helper listens (NO_ACCESS), no answer in time (TIMEOUT).
import { timeout, within } from '../lib/deadline'
import { OsError } from '../lib/errors'
import type { Timers } from '../lib/timers'
import type { Descriptor, HelperAddon } from './addon'
import { systemError } from './errors'
import { READABLE } from './socket'

export interface Helper {
  /** its packet socket */
  readonly path: string
  /** the unit of that socket */
  readonly unit: string
  /** what did not happen when there is no answer */
  readonly late: string
  readonly answerMs: number
}

/** The answer to what `send` sends: a descriptor, which the caller closes, 0, or minus errno. */
export async function askHelper(
  { path, unit, late, answerMs }: Helper,
  timers: Timers,
  addon: HelperAddon,
  send: (connection: Descriptor) => number,
): Promise<Descriptor | number> {
  const connection = addon.connectUnixPackets(path)
  if (typeof connection === 'number')
    throw new OsError('NO_ACCESS', `${path}: ${systemError(connection, 'connect').message}`, {
      hint: `systemctl start ${unit}`,
    })
  try {
    const answered = new Promise<void>((resolve, reject) => {
      const watched = addon.watch(connection, READABLE, () => resolve())
      if (watched < 0) reject(systemError(watched, 'poll'))
    })
    const sent = send(connection)
    if (sent < 0) return sent
    await within(timers, answerMs, answered, timeout(late, answerMs))
    return addon.takeDescriptor(connection)
  } finally {
    addon.close(connection)
  }
}
