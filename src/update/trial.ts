// A new version on trial: the boot loader has started it once. It is confirmed when the gateway reports that it works, else
// the board restarts with the old version; a hanging or panicking board restarts by its watchdog. The result of the last
// update is stored on the data partition.
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
  /** the board was restarted for the trial */
  readonly restarted?: boolean
  /** UNIX ms by the clock of the board */
  readonly at: number
  /** UNIX seconds */
  readonly built_at?: number
  /** of the new system, and how many of them were fetched */
  readonly bytes?: number
  readonly fetched_bytes?: number
  /** updates that were rolled back, newest first: the board does not install them again automatically */
  readonly went_back?: readonly string[]
}

/** rolled-back updates that are remembered */
const KEPT = 16

/** Identifies an update: two of one version differ in their build time. */
const nameOf = ({ version, built_at: built = 0 }: Pick<LastUpdate, 'version' | 'built_at'>): string =>
  `${version} ${built}`

/** Whether this update was tried on this board and rolled back. */
export const wasRolledBack = (updates: LastUpdates, update: Pick<LastUpdate, 'version' | 'built_at'>): boolean =>
  updates.read()?.went_back?.includes(nameOf(update)) ?? false

/** The record of a trial that was rolled back. */
const rolledBack = (last: LastUpdate, reason: string, at: number): LastUpdate => {
  const before = (last.went_back ?? []).filter(name => name !== nameOf(last))
  return { ...last, outcome: 'rolled back', reason, at, went_back: [nameOf(last), ...before].slice(0, KEPT) }
}

/** A record in a file; undefined: there is none. */
export class RecordFile<T> {
  constructor(readonly path: string) {}

  read(): T | undefined {
    return orElse(undefined, () => JSON.parse(readFileSync(this.path, 'utf8')) as T)
  }

  write(record: T): void {
    mkdirSync(dirname(this.path), { recursive: true })
    atomicWrite(this.path, `${JSON.stringify(record)}\n`)
  }
}

export class LastUpdates extends RecordFile<LastUpdate> {}

/** Makes the next start try the written slot. The record is written first: a power cut leaves no trial without one. */
export function beginTrial(slots: Slots, updates: LastUpdates, installed: Installed, now: number): void {
  const { copied_bytes: _, ...about } = installed
  const { went_back } = updates.read() ?? {}
  updates.write({ ...about, outcome: 'trial', at: now, ...(went_back && { went_back }) })
  slots.tryOnce(installed.slot)
}

/** To be called before the restart of a trial. */
export function noteRestart(updates: LastUpdates): void {
  const last = updates.read()
  if (last?.outcome === 'trial') updates.write({ ...last, restarted: true })
}

/** Whether this start is a trial. */
export const onTrial = (slots: Slots): boolean => slots.choice().active !== slots.running.name

/** The gateway works: its slot is used by every start from now on. False if this is no trial. */
export function confirm(slots: Slots, updates: LastUpdates, now: number): boolean {
  if (!onTrial(slots)) return false
  slots.activate(slots.running.name)
  const last = updates.read()
  if (last) updates.write({ ...last, outcome: 'confirmed', at: now })
  return true
}

/** The gateway did not report that it works: the next start uses the old slot. False if this is no trial. */
export function giveUp(slots: Slots, updates: LastUpdates, now: number): boolean {
  if (!onTrial(slots)) return false
  const last = updates.read()
  if (last) updates.write(rolledBack(last, 'the gateway did not become healthy in time', now))
  return true
}

/**
 * At every start: a trial that ended without a report is rolled back, unless its slot was already made the active one. One that a power cut
 * prevented is as well, but the board may install it again automatically.
 */
export function settle(slots: Slots, updates: LastUpdates, now: number): void {
  const last = updates.read()
  if (last?.outcome !== 'trial' || slots.choice().trying || onTrial(slots)) return
  if (last.slot === slots.running.name) updates.write({ ...last, outcome: 'confirmed', at: now })
  else if (last.restarted || slots.keepsTry)
    updates.write(rolledBack(last, 'its system did not start, or the power was cut during the trial', now))
  else
    updates.write({
      ...last,
      outcome: 'rolled back',
      reason: 'the power was cut before its trial; install it again',
      at: now,
    })
}
