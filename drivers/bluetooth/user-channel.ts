// The user channel of an adapter for a gateway without the right to open it: hci-open (drivers/native/helper) opens it
// and passes the descriptor. With this channel the gateway has exclusive use of the adapter; the kernel does not use
// it.
//
// Errors: no helper listens (NO_ACCESS); the adapter is missing (LINK_DOWN with the system's error) or in use by another
// program, which is named (LINK_DOWN); no answer in time (TIMEOUT).
import { constants } from 'node:os'
import { OsError } from '../../src/lib/errors'
import { type Files, realFiles } from '../../src/lib/files'
import type { Timers } from '../../src/lib/timers'
import { native, systemError } from '../../src/native'
import type { Descriptor, HciAddon } from '../../src/native/addon'
import { askHelper } from '../../src/native/helper'
import { adapterUsers, HELPER } from './machine'

/** switching an adapter off can take two seconds */
const ANSWER_MS = 5000

/** Opens the user channel of adapter `hci<device>`; the caller closes it. */
export async function openUserChannel(
  device: number,
  timers: Timers,
  addon: HciAddon = native().addon,
  files: Files = realFiles,
): Promise<Descriptor> {
  const helper = { path: HELPER, unit: 'os-node-hci.socket', answerMs: ANSWER_MS }
  const opened = await askHelper({ ...helper, late: `hci-open did not open hci${device}` }, timers, addon, connection =>
    addon.sendOne(connection, Buffer.from(String(device)), null),
  )
  if (typeof opened !== 'number') return opened
  const users = opened === -constants.errno.EBUSY && adapterUsers(files)
  const why = users ? `it is in use by ${users}` : systemError(opened, 'bind').message
  throw new OsError('LINK_DOWN', `hci-open could not open hci${device}: ${why}`)
}
