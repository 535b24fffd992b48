// The user channel of an adapter for a gateway without the right to open it: hci-open (drivers/native/helper) opens it
// and passes the descriptor. With this channel the gateway has exclusive use of the adapter; the kernel does not use
// it.
//
// Errors: no helper listens (NO_ACCESS); the adapter is missing or in use by another program (LINK_DOWN with the
// system's error); no answer in time (TIMEOUT).
import { timeout, within } from '../../src/lib/deadline'
import { OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import { native, READABLE, systemError } from '../../src/native'
import type { Descriptor, HciAddon } from '../../src/native/addon'

/** the socket unit os-node-hci.socket */
export const HELPER = '/run/os-node-hci'
/** switching an adapter off can take two seconds */
const ANSWER_MS = 5000

/** Opens the user channel of adapter `hci<device>`; the caller closes it. */
export async function openUserChannel(
  device: number,
  timers: Timers,
  addon: HciAddon = native().hci,
): Promise<Descriptor> {
  const asked = addon.connectUnixPackets(HELPER)
  if (typeof asked === 'number')
    throw new OsError('NO_ACCESS', `${HELPER}: ${systemError(asked, 'connect').message}`, {
      hint: 'systemctl start os-node-hci.socket',
    })
  try {
    const answered = new Promise<void>((resolve, reject) => {
      const watched = addon.watch(asked, READABLE, () => resolve())
      if (watched < 0) reject(systemError(watched, 'poll'))
    })
    addon.sendOne(asked, Buffer.from(String(device)), null)
    await within(timers, ANSWER_MS, answered, timeout(`hci-open did not open hci${device}`, ANSWER_MS))
    const opened = addon.takeDescriptor(asked)
    if (typeof opened === 'number')
      throw new OsError('LINK_DOWN', `hci-open could not open hci${device}: ${systemError(opened, 'bind').message}`)
    return opened
  } finally {
    addon.close(asked)
  }
}
