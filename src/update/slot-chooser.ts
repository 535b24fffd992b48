// Selects the slot at a start, here with U-Boot and a sector of the card. firmware.ts has the variant for Raspberry Pi
// firmware.
//
// The sector, 64 KiB from the start of the card: "OSN1", the boot partition to start, the one to try, and the remaining
// number of tries (one byte each). The boot loader decrements the count before it starts a try, so that a hanging try is not
// repeated.
// Errors: those of the card's device.
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'

export type Refusal = readonly [message: string, hint: string]

/** Selects the slot at a start. Slots are numbers of boot partitions. */
export interface Chooser {
  /** a power cut before the try only postpones it; else the next start is an ordinary one */
  readonly keepsTry: boolean
  refusal(): Refusal | undefined
  /** `trying` is 0 if the next start is no try */
  read(): { active: number; trying: number }
  /** Makes the next start try this slot, once. */
  tryOnce(trying: number): void
  /** Makes `active` the slot of every start; `other` is the other one. */
  activate(active: number, other: number): void
}

const PLACE = 64 * 1024
const SECTOR = 512
const MAGIC = 'OSN1'

/** The selection in the sector of the card `disk`. */
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
    keepsTry: true,
    refusal: () => undefined,
    read,
    tryOnce: trying => write(read().active, trying, 1),
    activate: active => write(active, 0, 0),
  }
}
