// How far an update of the emulated board is, by what it writes to its card: blocks of a slot, then the sector of the slot chooser
// (src/update/slot-chooser.ts), which U-Boot counts down before it starts a try, and which the confirmation resets. Slots are written by updates only.
import { MIB, PLACES } from './board'

export type Phase = 'no update' | 'writing' | 'trial'

export const CHOOSER = 64 * 1024
const SLOTS = [
  [PLACES.bootA, 48 * MIB],
  [PLACES.bootB, 48 * MIB],
  [PLACES.rootA, 128 * MIB],
  [PLACES.rootA + 129 * MIB, 128 * MIB],
] as const

export class UpdatePhase {
  /** An update that is written and waits for the restart counts as being written. */
  phase: Phase = 'no update'

  /** The power is on: an update that was being written does not go on by itself. */
  powerOn(): void {
    this.phase = 'no update'
  }

  /** A write; `sector`: what the chooser's sector has after it. */
  wrote(at: number, length: number, sector: () => Buffer): void {
    if (at <= CHOOSER && CHOOSER < at + length) {
      const [trying, tries] = sector().subarray(5)
      this.phase = trying === 0 ? 'no update' : tries === 0 ? 'trial' : 'writing'
    } else if (this.phase === 'no update' && SLOTS.some(([from, size]) => at >= from && at < from + size))
      this.phase = 'writing'
  }
}
