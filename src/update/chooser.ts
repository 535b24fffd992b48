// What chooses the slot at a start; here U-Boot, by a sector of the card. firmware.ts has the other one.
//
// The sector, 64 KiB from the beginning of the card: "OSN1", the boot partition that is started, the one that is tried, and how often
// it is still tried (one byte each). The boot loader counts down before it starts a try, so a try that hangs is not repeated.
// Errors: those of the card's device.
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'

export type Refusal = readonly [message: string, hint: string]

/** What chooses the slot at a start. Slots are numbers of boot partitions. */
export interface Chooser {
  refusal(): Refusal | undefined
  /** `trying` is 0 where the next start is no try */
  read(): { active: number; trying: number }
  /** Lets the next start try this one, once. */
  tryOnce(trying: number): void
  /** Makes `active` the one that every start takes; `other` is the other one. */
  activate(active: number, other: number): void
}

const PLACE = 64 * 1024
const SECTOR = 512
const MAGIC = 'OSN1'

/** The choice in the sector of the card `disk`. */
export function sectorChooser(first: number, disk: string): Chooser {
  function write(active: number, trying: number, tries: number): void {
    const sector = Buffer.alloc(SECTOR)
    sector.write(MAGIC, 'latin1')
    sector.set([active, trying, tries], MAGIC.length)
    const fd = openSync(disk, 'r+')
    try {
      writeSync(fd, sector, 0, SECTOR, PLACE)
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
  }

  function read(): { active: number; trying: number } {
    const sector = Buffer.alloc(SECTOR)
    const fd = openSync(disk, 'r')
    try {
      readSync(fd, sector, 0, SECTOR, PLACE)
    } finally {
      closeSync(fd)
    }
    if (sector.toString('latin1', 0, MAGIC.length) !== MAGIC) return { active: first, trying: 0 }
    const [active, trying, tries] = sector.subarray(MAGIC.length)
    return { active: active!, trying: tries! > 0 ? trying! : 0 }
  }

  return {
    refusal: () => undefined,
    read,
    tryOnce: trying => write(read().active, trying, 1),
    activate: active => write(active, 0, 0),
  }
}
