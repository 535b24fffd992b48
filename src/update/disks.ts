// Removable disks, as the kernel lists them: cards and USB sticks. Internal disks are never listed, and a disk in use is
// refused.
// Errors: E_FLASH.
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { OsError, orElse } from '../lib/errors'

/** Where the kernel lists disks; tests use other folders. */
export interface DiskFolders {
  readonly sys: string
  readonly dev: string
  readonly proc: string
}
export const MACHINE: DiskFolders = { sys: '/sys', dev: '/dev', proc: '/proc' }

export interface Disk {
  readonly device: string
  readonly size_bytes: number
  readonly model: string
  readonly removable: boolean
  readonly write_protected: boolean
  /** mount points of its partitions */
  readonly mounted: readonly string[]
  /** as swap, or under RAID, LVM or encryption */
  readonly in_use: boolean
}

const textOf = (...path: string[]): string => orElse('', () => readFileSync(join(...path), 'utf8').trim())
const namesIn = (...path: string[]): string[] => orElse<string[], string[]>([], () => readdirSync(join(...path)))

function diskNamed(name: string, { sys, dev, proc }: DiskFolders): Disk {
  const at = join(sys, 'block', name)
  const parts = namesIn(at).filter(part => existsSync(join(at, part, 'partition')))
  const folders = [at, ...parts.map(part => join(at, part))]
  const numbers = folders.map(folder => textOf(folder, 'dev'))
  const devices = [name, ...parts].map(one => join(dev, one))
  // a file system on several devices has its own number, but names one of them
  const mounts = textOf(proc, 'self/mountinfo')
    .split('\n')
    .map(line => ({ fields: line.split(' '), source: line.split(' - ')[1]?.split(' ')[1] ?? '' }))
    .filter(({ fields, source }) => numbers.includes(fields[2] ?? '-') || devices.includes(source))
  const swaps = textOf(proc, 'swaps')
    .split('\n')
    .map(line => line.split(/\s/)[0] ?? '')
  return {
    device: join(dev, name),
    size_bytes: Number(textOf(at, 'size')) * 512,
    model:
      [textOf(at, 'device/vendor'), textOf(at, 'device/model') || textOf(at, 'device/name')].join(' ').trim() || '-',
    removable: textOf(at, 'removable') === '1' || textOf(at, 'device/type') === 'SD',
    write_protected: textOf(at, 'ro') === '1',
    mounted: mounts.map(({ fields }) => fields[4] ?? ''),
    in_use: folders.some(folder => namesIn(folder, 'holders').length > 0) || devices.some(one => swaps.includes(one)),
  }
}

/** A reader without a card has no size. */
export const removableDisks = (machine = MACHINE): Disk[] =>
  namesIn(machine.sys, 'block')
    .sort()
    .map(name => diskNamed(name, machine))
    .filter(({ removable, size_bytes: size }) => removable && size > 0)

const refuse = (message: string, hint: string): OsError => new OsError('E_FLASH', message, { hint })

/** The disk, checked to have room for `bytes`. Throws E_FLASH if it must not be written. */
export function diskFor(device: string, bytes: number, machine = MACHINE): Disk {
  const path = device.includes('/') ? device : join(machine.dev, device)
  const name = basename(orElse(path, () => realpathSync(path)))
  if (existsSync(join(machine.sys, 'class/block', name, 'partition')))
    throw refuse(`${device} is a partition`, 'use the complete disk; os-node flash lists them')
  if (!existsSync(join(machine.sys, 'block', name))) throw refuse(`${device} is not a disk`, 'os-node flash lists them')
  const disk = diskNamed(name, machine)
  if (!disk.removable)
    throw refuse(
      `${disk.device} is not removable: it is a disk of this machine`,
      'os-node flash lists cards and sticks',
    )
  if (disk.size_bytes === 0) throw refuse(`${disk.device} has no card`, 'put a card in')
  if (disk.mounted.length > 0)
    throw refuse(`${disk.device} is mounted at ${disk.mounted.join(', ')}`, `sudo umount ${disk.mounted.join(' ')}`)
  if (disk.in_use) throw refuse(`${disk.device} is in use`, 'stop using it: swapoff, mdadm, LVM or cryptsetup')
  if (disk.write_protected) throw refuse(`${disk.device} is write-protected`, 'push the small lock of the card up')
  if (disk.size_bytes < bytes)
    throw refuse(
      `the image has ${gigabytes(bytes)}, ${disk.device} only ${gigabytes(disk.size_bytes)}`,
      'take a larger card',
    )
  return disk
}

export const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`

/** The table of `os-node flash`. */
export function disksText(disks: readonly Disk[]): string {
  if (disks.length === 0) return 'no removable disk: put a card in'
  const state = ({ mounted, in_use: used, write_protected: locked }: Disk): string =>
    mounted.length > 0 ? `mounted at ${mounted.join(', ')}` : used ? 'in use' : locked ? 'write-protected' : 'ready'
  const rows = disks.map(disk => [disk.device, gigabytes(disk.size_bytes), disk.model, state(disk)])
  const all = [['device', 'size', 'model', 'state'], ...rows]
  const widths = [0, 1, 2].map(column => Math.max(...all.map(row => row[column]!.length)))
  return all.map(row => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')).join('\n')
}
