// Why an adapter cannot be used, according to the kernel: no such adapter, blocked by rfkill, switched off, no rights.
// Called when opening fails or would fail, because the library's own error has no cause.
import { join } from 'node:path'
import { OsError, orElse } from '../../src/lib/errors'
import type { Files } from '../../src/lib/files'

/** the socket unit os-node-hci.socket */
export const HELPER = '/run/os-node-hci'
/** bits of the capability set (linux/capability.h) */
const NET_ADMIN = 12n
const NET_RAW = 13n

// a file that this kernel does not have reads as empty
const read = (files: Files, path: string): string => orElse('', () => files.read(path).toString('utf8').trim())
const list = (files: Files, path: string): string[] => orElse([], () => files.list(path))

/** The error that explains why `adapter` (hci0) cannot be opened, or null if no obstacle is known. */
export function adapterTrouble(files: Files, adapter: string): OsError | null {
  const all = list(files, '/sys/class/bluetooth').filter(name => /^hci\d+$/.test(name))
  if (!all.includes(adapter)) {
    const there = all.length === 0 ? 'no Bluetooth adapter' : `no adapter ${adapter}; there is ${all.join(', ')}`
    return new OsError('NOT_FOUND', `this machine has ${there}`, {
      hint: 'plug one in, or remove dtoverlay=disable-bt from config.txt and start hciuart; ls /sys/class/bluetooth shows it',
    })
  }
  const blocked = rfkill(files, adapter)
  if (blocked) return blocked
  if (!hasRights(files) && !files.exists(HELPER))
    return new OsError('NO_ACCESS', `no right to use ${adapter}`, {
      hint: 'install the Debian package, whose os-node-hci.socket opens it, or run as root',
    })
  return null
}

/** Whether this process may open adapters directly. */
export function hasRights(files: Files): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(read(files, '/proc/self/status'))?.[1]
  const rights = effective === undefined ? -1n : BigInt(`0x${effective}`)
  return ((rights >> NET_ADMIN) & (rights >> NET_RAW) & 1n) === 1n
}

function rfkill(files: Files, adapter: string): OsError | null {
  const dir = `/sys/class/bluetooth/${adapter}`
  for (const name of list(files, dir).filter(entry => entry.startsWith('rfkill'))) {
    if (read(files, join(dir, name, 'soft')) === '1')
      return new OsError('NO_ACCESS', `${adapter} is blocked by rfkill`, { hint: 'rfkill unblock bluetooth' })
    if (read(files, join(dir, name, 'hard')) === '1')
      return new OsError('NO_ACCESS', `${adapter} is switched off by a switch of the machine`, {
        hint: 'look for a radio switch or a BIOS setting',
      })
  }
  return null
}

/** True when bluetoothd runs, which starts scans and resets without this process. */
export function bluetoothdRuns(files: Files): boolean {
  return list(files, '/proc').some(pid => /^\d+$/.test(pid) && read(files, `/proc/${pid}/comm`) === 'bluetoothd')
}

/** The other programs that use an adapter: name and pid, or only their user if this one may not see them; '' if the kernel names none. */
export function adapterUsers(files: Files): string {
  const rows = read(files, '/proc/net/hci').matchAll(/(\d+) +(\d+) +\d+ *$/gm)
  const sockets = new Map(Array.from(rows, ([, user, inode]) => [inode, `a program of user ${user}`]))
  const users = list(files, '/proc').filter(pid => {
    if (!Number(pid)) return false
    const opened = list(files, `/proc/${pid}/fdinfo`).map(fd => read(files, `/proc/${pid}/fdinfo/${fd}`))
    const used = opened.filter(text => sockets.delete(/^ino:\s*(\d+)$/m.exec(text)?.[1]))
    return used.length > 0 && Number(pid) !== process.pid
  })
  return [...users.map(pid => `${read(files, `/proc/${pid}/comm`)} (${pid})`), ...new Set(sockets.values())].join(', ')
}
