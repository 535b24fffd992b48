// The two slots of the card; the firmware (firmware.ts), or U-Boot with a sector (slot-chooser.ts), selects one. A slot is a boot
// partition and a root partition; the kernel's command line names the running one.
// Errors: NO_SLOTS (not a system with slots), E_UPDATE (the sector cannot be read: the board starts slot A).
import { closeSync, existsSync, openSync, readFileSync, readSync, realpathSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { OsError } from '../lib/errors'
import { firmwareChooser } from './firmware'
import { type Chooser, type Refusal, sectorChooser } from './slot-chooser'

export type SlotName = 'A' | 'B'

export interface Slot {
  readonly name: SlotName
  readonly boot: string
  readonly root: string
  /** its number for the boot loader */
  readonly bootPartition: number
  readonly rootPartition: number
}

export interface SlotChoice {
  /** the slot of every start */
  readonly active: SlotName
  /** the slot that the next start tries */
  readonly trying?: SlotName
}

export interface Slots {
  readonly running: Slot
  readonly other: Slot
  /** of the running system */
  readonly board: string
  readonly version: string
  readonly built_at: number
  /** see Chooser */
  readonly keepsTry: boolean
  /** why the boot loader of this board cannot try a slot, and what to do */
  refusal(): Refusal | undefined
  choice(): SlotChoice
  /** Makes the next start try `slot`, once. */
  tryOnce(slot: SlotName): void
  /** Makes `slot` the one of every start. */
  activate(slot: SlotName): void
}

/** Words of the kernel's command line: `os_node.name=value`. */
const words = (line: string): Map<string, string> =>
  new Map(Array.from(line.matchAll(/(?<!\S)os_node\.([^\s=]*)=(\S*)/g), ([, name, value]) => [name!, value!]))

/** The disk of the partition `device`. */
const diskOf = (device: string): string =>
  `/dev/${basename(dirname(realpathSync(`/sys/class/block/${basename(realpathSync(device))}`)))}`

/**
 * The slots of this system. `commandLine`, `devices` (partitions by name), `disk`, `firmware`: for tests. Throws NO_SLOTS.
 */
export function openSlots(
  commandLine = '/proc/cmdline',
  devices = '/dev/disk/by-partuuid',
  disk = '',
  firmware: (first: number) => Chooser = firmwareChooser,
): Slots {
  const said = words(existsSync(commandLine) ? readFileSync(commandLine, 'latin1') : '')
  const id = said.get('disk')
  if (!id) throw new OsError('NO_SLOTS', 'this system has no slots')
  const slot = (name: SlotName): Slot => {
    const [bootPartition, rootPartition] = name === 'A' ? [2, 5] : [3, 6]
    const device = (number: number): string => `${devices}/${id}-0${number}`
    return { name, boot: device(bootPartition), root: device(rootPartition), bootPartition, rootPartition }
  }
  const [a, b] = [slot('A'), slot('B')]
  const [running, other] = said.get('partition') === '6' ? [b, a] : [a, b]
  const chooser =
    said.get('chooser') === 'sector'
      ? sectorChooser(a.bootPartition, disk || diskOf(running.boot))
      : firmware(a.bootPartition)
  const nameOf = (partition: number): SlotName => (partition === b.bootPartition ? 'B' : 'A')
  const partitionsOf = (name: SlotName): [number, number] =>
    name === 'A' ? [a.bootPartition, b.bootPartition] : [b.bootPartition, a.bootPartition]

  return {
    running,
    other,
    board: said.get('board') ?? '',
    version: said.get('version') ?? '',
    built_at: Number(said.get('built') ?? 0),
    keepsTry: chooser.keepsTry,
    refusal: () => chooser.refusal(),
    choice() {
      const { active, trying } = chooser.read()
      return { active: nameOf(active), ...(trying > 0 && { trying: nameOf(trying) }) }
    },
    tryOnce: name => chooser.tryOnce(partitionsOf(name)[0]),
    activate: name => chooser.activate(...partitionsOf(name)),
  }
}

/** The version of a slot, from the command line on its boot partition; undefined if the slot is empty or incomplete. */
export function versionOn(boot: string): { version: string; built_at: number } | undefined {
  const bytes = Buffer.alloc(4 * 2 ** 20)
  const fd = openSync(boot, 'r')
  try {
    readSync(fd, bytes, 0, bytes.length, 0)
  } finally {
    closeSync(fd)
  }
  // a slot being written has no file system
  if (bytes.readUInt16LE(510) !== 0xaa55) return undefined
  const found = /os_node\.version=(\S+) os_node\.built=(\d+)/.exec(bytes.toString('latin1'))
  return found ? { version: found[1]!, built_at: Number(found[2]) } : undefined
}
