// A new version on trial: the boot loader started it once. It is confirmed by the gateway's own word, else the board starts again, with
// the old version; a board that hangs or panics gets there by its watchdog. What became of the last update is kept on the data partition.
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { orElse } from '../lib/errors'
import type { Installed } from './install'
import type { SlotName, Slots } from './slots'

export interface LastUpdate {
  readonly version: string
  readonly from: string
  readonly slot: SlotName
  readonly outcome: 'trial' | 'confirmed' | 'rolled back'
  readonly reason?: string
  /** UNIX ms by the clock of the board */
  readonly at: number
}

export class LastUpdates {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  read(): LastUpdate | undefined {
    return orElse(undefined, () => JSON.parse(readFileSync(this.#path, 'utf8')) as LastUpdate)
  }

  write(last: LastUpdate): void {
    mkdirSync(dirname(this.#path), { recursive: true })
    atomicWrite(this.#path, `${JSON.stringify(last)}\n`)
  }
}

/** Lets the next start try the slot that was written. The record comes first: a cut of the power leaves no trial without one. */
export function beginTrial(slots: Slots, updates: LastUpdates, { version, from, slot }: Installed, now: number): void {
  updates.write({ version, from, slot, outcome: 'trial', at: now })
  slots.tryOnce(slot)
}

/** Whether this start is a trial. */
export const onTrial = (slots: Slots): boolean => slots.choice().active !== slots.running.name

/** The gateway works: its slot is the one that every start takes from now on. False where this is no trial. */
export function confirm(slots: Slots, updates: LastUpdates, now: number): boolean {
  if (!onTrial(slots)) return false
  slots.activate(slots.running.name)
  const last = updates.read()
  if (last) updates.write({ ...last, outcome: 'confirmed', at: now })
  return true
}

/** The gateway did not say that it works: the next start takes the old slot. False where this is no trial. */
export function giveUp(slots: Slots, updates: LastUpdates, now: number): boolean {
  if (!onTrial(slots)) return false
  const last = updates.read()
  if (last)
    updates.write({ ...last, outcome: 'rolled back', reason: 'the gateway did not become healthy in time', at: now })
  return true
}

/** At every start: a trial that ended without a word is rolled back, unless its slot was made the active one already. */
export function settle(slots: Slots, updates: LastUpdates, now: number): void {
  const last = updates.read()
  if (last?.outcome !== 'trial' || slots.choice().trying || onTrial(slots)) return
  const reason = 'its system did not start, or the power was cut during the trial'
  const confirmed = last.slot === slots.running.name
  updates.write({ ...last, ...(confirmed ? { outcome: 'confirmed' } : { outcome: 'rolled back', reason }), at: now })
}
