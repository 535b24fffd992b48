// The user channel of an adapter for a gateway without the right to open it: hci-open (drivers/native/helper) opens it
// and passes the descriptor. With this channel the gateway has exclusive use of the adapter; the kernel does not use
// it.
//
// Errors: no helper listens (NO_ACCESS); the adapter is missing or in use by another program (LINK_DOWN with the
// system's error); no answer in time (TIMEOUT).
import { OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import { native, systemError } from '../../src/native'
import type { Descriptor, HciAddon } from '../../src/native/addon'
import { askHelper } from '../../src/native/helper'

/** the socket unit os-node-hci.socket */
export const HELPER = '/run/os-node-hci'
/** switching an adapter off can take two seconds */
const ANSWER_MS = 5000

/** Opens the user channel of adapter `hci<device>`; the caller closes it. */
export async function openUserChannel(
  device: number,
  timers: Timers,
  addon: HciAddon = native().addon,
): Promise<Descriptor> {
  const helper = { path: HELPER, unit: 'os-node-hci.socket', answerMs: ANSWER_MS }
  const opened = await askHelper({ ...helper, late: `hci-open did not open hci${device}` }, timers, addon, connection =>
    addon.sendOne(connection, Buffer.from(String(device)), null),
  )
  if (typeof opened === 'number')
    throw new OsError('LINK_DOWN', `hci-open could not open hci${device}: ${systemError(opened, 'bind').message}`)
  return opened
}
