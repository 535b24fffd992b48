// Templates on disk: `<registry>/<d1d2>/<d3d4>/<aid>.json`, d = the AID with ten digits. A file is written when a
// template is learned, and at stop, never because values changed (decision 0017). A stop leaves a mark with the newest time of
// every template; without the mark, or for a template that it does not contain, slot values are not used and are null:
// the template counts as missing until a FULL. Reading the mark removes it (if that fails it is not used), so only a
// clean stop of this run makes the values usable again. A file that cannot be read or parsed counts as missing; a
// failed write is counted in `errors`, stored in `lastError` and retried later.

import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { type Clock, systemClock } from '../lib/clock'
import { type Files, realFiles } from '../lib/files'
import { isObject } from '../lib/objects'

const MARK = 'clean-stop.json'

export interface KeptTemplate {
  tid: number
  signature: string
  /** slot texts; null if they must not be used */
  slots: string[] | null
  /** slot texts at the time of learning, if `slots` is null: the units are valid, the values are not (X33) */
  stale?: string[]
  /** TS of the newest packet, -1 if unknown */
  ts: number
}

const TIDS = Array.from({ length: 256 }, (_, tid) => String(tid).padStart(2, '0'))
/** A TID as text, at least two digits. */
export const padTid = (tid: number): string => TIDS[tid]!

/** The part of a registry that a receiver needs. */
export type TemplateFiles = Pick<TemplateRegistry, 'load' | 'learned' | 'flush' | 'hasDirty'>

export class TemplateRegistry {
  errors = 0
  /** most files per flush */
  perFlush = Number.POSITIVE_INFINITY
  lastError: unknown = null
  #mark: Record<string, unknown> | undefined
  #nextFlush = Number.NEGATIVE_INFINITY
  readonly #dirty = new Set<number>()

  constructor(
    readonly dir: string,
    readonly files: Files = realFiles,
    readonly intervalMs = 1000,
    readonly clock: Clock = systemClock,
  ) {}

  path(aid: number): string {
    const digits = String(aid).padStart(10, '0')
    return join(this.dir, digits.slice(0, 2), digits.slice(2, 4), `${aid}.json`)
  }

  #json(path: string): unknown {
    try {
      return this.files.exists(path) ? JSON.parse(this.files.read(path).toString('utf8')) : undefined
    } catch (error) {
      this.#failed(error)
      return undefined
    }
  }

  #failed(error: unknown): void {
    this.errors++
    this.lastError = error
  }

  #marks(): Record<string, unknown> {
    if (this.#mark) return this.#mark
    const path = join(this.dir, MARK)
    this.#mark = asRecord(asRecord(this.#json(path)).templates)
    try {
      if (this.files.exists(path)) this.files.remove(path)
    } catch (error) {
      this.#failed(error)
      this.#mark = {}
    }
    return this.#mark
  }

  /** The stored templates of an AID, by ascending TID; malformed entries are dropped. */
  load(aid: number): KeptTemplate[] {
    const file = asRecord(asRecord(this.#json(this.path(aid))).templates)
    const marks = this.#marks()
    const times = asRecord(marks[String(aid)])
    // only once: a template that is loaded again later in this run has changed since
    delete marks[String(aid)]
    const kept: KeptTemplate[] = []
    for (const [key, value] of Object.entries(file)) {
      const tid = Number(key)
      const { sig, last_vals_bin: slots } = asRecord(value)
      if (!Number.isInteger(tid) || tid < 0 || tid > 255 || typeof sig !== 'string' || !Array.isArray(slots)) continue
      if (!slots.every(slot => typeof slot === 'string')) continue
      const ts = times[key]
      const texts = slots.map(slot => Buffer.from(slot as string, 'base64').toString('utf8'))
      kept.push({
        tid,
        signature: sig,
        ...(typeof ts === 'number' ? { slots: texts, ts } : { slots: null, stale: texts, ts: -1 }),
      })
    }
    return kept.sort((a, b) => a.tid - b.tid)
  }

  /** A template of this AID was learned: its file is written at the next flush. */
  learned(aid: number): void {
    this.#dirty.add(aid)
  }

  get hasDirty(): boolean {
    return this.#dirty.size > 0
  }

  /** Writes learned templates, at most once per interval. `templates` returns the current ones of an AID. */
  flush(templates: (aid: number) => KeptTemplate[]): void {
    const mono = this.clock.mono()
    if (mono < this.#nextFlush) return
    this.#nextFlush = mono + this.intervalMs
    let left = this.perFlush
    for (const aid of this.#dirty) {
      if (left-- <= 0) return
      if (this.write(aid, templates(aid))) this.#dirty.delete(aid)
    }
  }

  write(aid: number, templates: KeptTemplate[]): boolean {
    const out: Record<string, unknown> = {}
    for (const { tid, signature, slots, stale } of templates) {
      out[padTid(tid)] = {
        sig: signature,
        last_vals_bin: (slots ?? stale ?? []).map(slot => Buffer.from(slot, 'utf8').toString('base64')),
      }
    }
    try {
      const path = this.path(aid)
      this.files.mkdir(join(path, '..'))
      atomicWrite(path, JSON.stringify({ aid: String(aid), templates: out }, null, 4), this.files)
      return true
    } catch (error) {
      this.#failed(error)
      return false
    }
  }

  /** Writes all AIDs passed in and, if that succeeds, the mark. */
  stop(aids: Iterable<number>, templates: (aid: number) => KeptTemplate[]): void {
    const times: Record<string, Record<string, number>> = {}
    let well = true
    for (const aid of aids) {
      const kept = templates(aid)
      well = this.write(aid, kept) && well
      const mine: Record<string, number> = {}
      for (const { tid, slots, ts } of kept) if (slots) mine[padTid(tid)] = ts
      times[String(aid)] = mine
    }
    this.#dirty.clear()
    if (!well) return
    try {
      this.files.mkdir(this.dir)
      atomicWrite(join(this.dir, MARK), JSON.stringify({ templates: times }), this.files)
    } catch (error) {
      this.#failed(error)
    }
  }
}

const asRecord = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {})
