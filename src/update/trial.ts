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
  /** UNIX seconds */
  readonly built_at?: number
  /** updates that went back, the newest first: the board does not try them again automatically */
  readonly went_back?: readonly string[]
}

const KEPT = 16

/** What names an update: two of one version differ in the time of building. */
const nameOf = ({ version, built_at: built = 0 }: Pick<LastUpdate, 'version' | 'built_at'>): string =>
  `${version} ${built}`

/** Whether this update was tried on this board and went back. */
export const wentBack = (updates: LastUpdates, update: Pick<LastUpdate, 'version' | 'built_at'>): boolean =>
  updates.read()?.went_back?.includes(nameOf(update)) ?? false

/** The record of a trial that went back. */
const backOf = (last: LastUpdate, reason: string, at: number): LastUpdate => {
  const before = (last.went_back ?? []).filter(name => name !== nameOf(last))
  return { ...last, outcome: 'rolled back', reason, at, went_back: [nameOf(last), ...before].slice(0, KEPT) }
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
export function beginTrial(slots: Slots, updates: LastUpdates, installed: Installed, now: number): void {
  const { version, built_at, from, slot } = installed
  const { went_back } = updates.read() ?? {}
  updates.write({ version, built_at, from, slot, outcome: 'trial', at: now, ...(went_back && { went_back }) })
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
  if (last) updates.write(backOf(last, 'the gateway did not become healthy in time', now))
  return true
}

/** At every start: a trial that ended without a word is rolled back, unless its slot was made the active one already. */
export function settle(slots: Slots, updates: LastUpdates, now: number): void {
  const last = updates.read()
  if (last?.outcome !== 'trial' || slots.choice().trying || onTrial(slots)) return
  const reason = 'its system did not start, or the power was cut during the trial'
  const confirmed = last.slot === slots.running.name
  updates.write(confirmed ? { ...last, outcome: 'confirmed', at: now } : backOf(last, reason, now))
}
