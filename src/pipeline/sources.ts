// A receiver's memory of its sources: per AID the templates of bare frames and, separately, those of each run in the
// delivery exchange (an epoch identifies one run of one sender). So two gateways with the same AID, or the runs before
// and after a restart, never build on each other's templates. Bounded: within an AID the runs that are silent longest
// are evicted first and must send a FULL again. AIDs that do not fit wait packed in the spill, with their runs, and
// return with their next frame; without a spill those that are silent longest are forgotten. Only bare templates are
// stored in the registry.
import { LruMap } from '../lib/lru-map'
import { encodeInteger } from '../wire/base62'
import { ANY_CONTENT, type MinTimestamps, newMinTimestamps, raiseMinTimestamp } from './min-timestamps'
import { PackedWriter } from './packed-bytes'
import { packSource, unpackSource } from './packed-templates'
import type { KeptTemplate, TemplateFiles } from './registry'
import type { MetaOf } from './slot-meta-cache'
import { readFull, SlotHistory, shapeOf } from './slots'
import type { Spill } from './spill'
import { isPlainSignature, msToken, templateText } from './text'

/** templates of bare frames whose time is too far in the future (X36): they change no other template */
export const AHEAD = 2 ** 32

/** templates of bare frames; every other scope is an epoch of the delivery exchange */
export const BARE = -1

/** remembered runs of one AID, and how long one may be silent while others arrive */
const MAX_RUNS = 8
const SILENT_MS = 3_600_000
/** AIDs whose newest times are remembered */
const MAX_WITH_MIN_TIMESTAMPS = 16_384

export interface Scope {
  readonly source: AidState
  readonly epoch: number
  readonly templates: Map<number, SlotHistory>
  /** bytes of all its templates */
  weight: number
  heardAt: number
  /** of an exchange before the start: its next frame shows whether it is as new as the sender assumes */
  unproved: boolean
}

export interface AidState {
  readonly aid: number
  /** its index in the list of all */
  place: number
  readonly scopes: Map<number, Scope>
  /** by shape: a FULL older than this is no base for DIFFs of a peer whose packets are acknowledged */
  readonly minTimestamps: MinTimestamps
  /** the last time assigned to a frame without one */
  stamp: number
  used: number
}

interface SourcesOptions {
  maxSources: number
  /** approximate limit of the bytes of all templates */
  maxBytes: number
  registry: TemplateFiles | null
  /** for AIDs that do not fit; null: they are forgotten */
  spill: Spill | null
  /** description of a `state.unit` */
  metaOf: MetaOf
  /** called for an inconsistent packed template; it costs only a NEED_FULL */
  damaged: () => void
  /** called for templates evicted for lack of memory */
  forgotten: (templates: number) => void
}

export class AidStates {
  readonly #options: SourcesOptions
  readonly #byAid = new Map<number, AidState>()
  readonly #list: AidState[] = []
  readonly #packer = new PackedWriter()
  /** of the generator that selects sources for the spill */
  #random = 0x9e3779b9
  /** of the AIDs in the log and of those forgotten since, the newest last; their files are read only when they are heard */
  readonly #minTimestamps = new LruMap<number, MinTimestamps>(MAX_WITH_MIN_TIMESTAMPS)
  #tick = 0
  #weight = 0

  constructor(options: SourcesOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#byAid.size
  }

  /** approximate bytes of the templates */
  get weight(): number {
    return this.#weight
  }

  /** A content that was acknowledged in an earlier run. */
  remember(aid: number, shape: number, ts: number): void {
    const minTimestamps = this.#minTimestamps.get(aid) ?? newMinTimestamps()
    raiseMinTimestamp(minTimestamps, shape, ts)
    this.#keepMinTimestamps(aid, minTimestamps)
  }

  #keepMinTimestamps(aid: number, minTimestamps: MinTimestamps): void {
    if (minTimestamps.size === 0) return
    this.#minTimestamps.set(aid, minTimestamps)
  }

  /** The templates of that run, for a FULL. `now`: wall ms; a jump of it costs at most a NEED_FULL. */
  scope(aid: number, epoch: number, now: number): Scope {
    const source = this.#known(aid) ?? this.#add(aid, this.#kept(aid))
    let scope = source.scopes.get(epoch)
    if (!scope) {
      this.#dropRuns(source, now)
      scope = { source, epoch, templates: new Map(), weight: 0, heardAt: now, unproved: false }
      source.scopes.set(epoch, scope)
    }
    scope.heardAt = now
    return scope
  }

  /** The same for a DIFF or HEART: undefined if there is none, so that unknown senders do not evict known ones. */
  find(aid: number, epoch: number, now: number): Scope | undefined {
    let source = this.#known(aid)
    if (!source) {
      const kept = this.#kept(aid)
      if (kept.size > 0) source = this.#add(aid, kept)
    }
    const scope = source?.scopes.get(epoch)
    if (scope) scope.heardAt = now
    return scope
  }

  /** The same, only from memory, for the fast path. */
  recent(aid: number, epoch: number, now: number): Scope | undefined {
    const source = this.#byAid.get(aid)
    if (source === undefined) return undefined
    source.used = ++this.#tick
    const scope = source.scopes.get(epoch)
    if (scope === undefined || scope.unproved) return undefined
    scope.heardAt = now
    return scope
  }

  /**
   * Frame `seq` of a run whose templates are from before the start. If it is not the expected one, the sender may have
   * answers that this receiver does not know of, because it runs on an older copy of its disk: these templates are no
   * base until a FULL.
   */
  prove(scope: Scope, seq: number): void {
    let newest = 0
    for (const history of scope.templates.values()) newest = Math.max(newest, history.seq)
    if (seq <= newest) return
    scope.unproved = false
    if (seq > newest + 1) for (const history of scope.templates.values()) history.invalidate()
  }

  /** Whether anything is remembered of that AID. */
  has(aid: number): boolean {
    return this.#byAid.has(aid) || this.#options.spill?.has(aid) === true
  }

  #known(aid: number): AidState | undefined {
    const source = this.#byAid.get(aid) ?? this.#back(aid)
    if (source) source.used = ++this.#tick
    return source
  }

  #add(aid: number, templates: Map<number, SlotHistory>): AidState {
    const minTimestamps = this.#minTimestamps.get(aid) ?? newMinTimestamps()
    const source: AidState = { aid, place: 0, scopes: new Map(), minTimestamps, stamp: 0, used: ++this.#tick }
    if (templates.size > 0) this.#put(source, BARE, templates, 0)
    this.#enter(source)
    return source
  }

  #enter(source: AidState): void {
    if (this.#byAid.size >= this.#options.maxSources) this.#makeRoom(source)
    source.place = this.#list.push(source) - 1
    this.#byAid.set(source.aid, source)
  }

  #put(source: AidState, epoch: number, templates: Map<number, SlotHistory>, heardAt: number, earlier = false): void {
    let weight = 0
    for (const history of templates.values()) weight += history.weight
    const unproved = earlier && epoch !== BARE && epoch !== AHEAD
    source.scopes.set(epoch, { source, epoch, templates, weight, heardAt, unproved })
    this.#weight += weight
  }

  /** Loads a source from the spill. */
  #back(aid: number): AidState | undefined {
    const earlier = this.#options.spill?.isEarlier(aid)
    const packed = this.#options.spill?.take(aid)
    if (!packed) return undefined
    try {
      const { stamp, minTimestamps, scopes } = unpackSource(packed, this.#options.metaOf)
      const source: AidState = { aid, place: 0, scopes: new Map(), minTimestamps, stamp, used: 0 }
      // the log's state of it at the start
      for (const [shape, { ts }] of this.#minTimestamps.get(aid) ?? []) raiseMinTimestamp(minTimestamps, shape, ts)
      this.#minTimestamps.delete(aid)
      for (const { epoch, templates, heardAt } of scopes) this.#put(source, epoch, templates, heardAt, earlier)
      this.#enter(source)
      this.#fit(source)
      return source
    } catch {
      // its checksum was valid, so another version wrote it: it counts as missing
      this.#options.damaged()
      return undefined
    }
  }

  /** The spill lost an AID: no FULL older than `newest` may be a base. */
  lost(aid: number, newest: number): void {
    this.#options.forgotten(1)
    if (newest >= 0) this.remember(aid, ANY_CONTENT, newest)
  }

  /** Stores a template under its TID. */
  hold(scope: Scope, tid: number, history: SlotHistory): Scope {
    const before = scope.templates.get(tid)?.weight ?? 0
    scope.templates.set(tid, history)
    this.weigh(scope, tid, history.weight - before)
    return scope
  }

  /** Records that the template of a TID takes more memory, and frees some if the limit is exceeded. */
  weigh(scope: Scope, tid: number, more: number): void {
    const { maxBytes } = this.#options
    const { source } = scope
    scope.weight += more
    this.#weight += more
    this.#fit(source)
    if (this.#weight <= maxBytes) return
    // a single source: its other runs and templates must be sent again
    for (const other of source.scopes.values()) if (other !== scope) this.#dropRun(other)
    for (const [other, history] of scope.templates) {
      if (other === tid) continue
      scope.templates.delete(other)
      scope.weight -= history.weight
      this.#weight -= history.weight
      if (scope.epoch !== AHEAD) raiseMinTimestamp(source.minTimestamps, history.shape.hash, history.newest)
      this.#options.forgotten(1)
    }
  }

  /** Makes space for one more run. A dropped run's acknowledged contents stay known by its minTimestamps. */
  #dropRuns(source: AidState, now: number): void {
    const runs = [...source.scopes.values()].filter(scope => scope.epoch !== BARE).sort((a, b) => a.heardAt - b.heardAt)
    runs.forEach((run, k) => {
      if (now - run.heardAt < SILENT_MS && runs.length - k < MAX_RUNS) return
      this.#dropRun(run)
    })
  }

  #dropRun({ source, epoch, templates, weight }: Scope): void {
    source.scopes.delete(epoch)
    this.#weight -= weight
    this.#options.forgotten(templates.size)
    // bare frames were never acknowledged
    if (epoch === BARE || epoch === AHEAD) return
    for (const history of templates.values())
      raiseMinTimestamp(source.minTimestamps, history.shape.hash, history.newest)
  }

  /** Frees memory until the templates fit; `keep` stays. */
  #fit(keep: AidState): void {
    while (this.#weight > this.#options.maxBytes && this.#byAid.size > 1) this.#makeRoom(keep)
  }

  #makeRoom(keep: AidState): void {
    if (this.#options.spill) this.#spillSome(keep, this.#options.spill)
    else this.#forgetOldest()
  }

  /**
   * Moves a few random sources to the spill. Nodes report in turn, so the one heard longest ago is heard next: for a
   * crowd slightly larger than the memory, that rule would move every source every time, while random choice moves few.
   */
  #spillSome(keep: AidState, spill: Spill): void {
    for (let left = Math.max(1, this.#list.length >> 8); left > 0 && this.#list.length > 0; left--) {
      this.#random = Math.imul(this.#random, 0x2c1b3c6d) + 0x3c6ef35f
      const at = (this.#random >>> 8) % this.#list.length
      const source = this.#list[at] === keep ? this.#list[(at + 1) % this.#list.length]! : this.#list[at]!
      if (source === keep) return
      this.#leave(source)
      for (const { weight } of source.scopes.values()) this.#weight -= weight
      this.#spill(source, spill)
    }
  }

  /** The bare templates of an AID that is in RAM. */
  bare(aid: number): Scope | undefined {
    return this.#byAid.get(aid)?.scopes.get(BARE)
  }

  /** The bare templates of an AID are no base any more. */
  forget(aid: number): void {
    this.#weight -= this.bare(aid)?.weight ?? 0
    this.bare(aid)?.source.scopes.delete(BARE)
  }

  /** The values of an AID's bare templates may be out of date: they become rebuilt ones. */
  rebuild(aid: number): void {
    for (const history of this.bare(aid)?.templates.values() ?? []) history.rebuild()
  }

  #spill(source: AidState, spill: Spill): void {
    let newest = -1
    let earlier = false
    for (const { templates, unproved } of source.scopes.values()) {
      earlier ||= unproved
      for (const history of templates.values()) newest = Math.max(newest, history.newest)
    }
    this.#minTimestamps.delete(source.aid)
    spill.put(source.aid, packSource(this.#packer, { ...source, scopes: source.scopes.values() }), newest, earlier)
  }

  #leave(source: AidState): void {
    this.#byAid.delete(source.aid)
    const last = this.#list.pop()!
    if (last === source) return
    last.place = source.place
    this.#list[last.place] = last
  }

  /** the quarter that is silent longest, so that the search is rare */
  #forgetOldest(): void {
    const byAge = [...this.#list].sort((a, b) => a.used - b.used)
    for (const source of byAge.slice(0, Math.max(1, byAge.length >> 2))) {
      this.#leave(source)
      for (const scope of source.scopes.values()) this.#dropRun(scope)
      this.#keepMinTimestamps(source.aid, source.minTimestamps)
    }
  }

  /** Clean stop: moves everything to the spill, which the next run uses. */
  saveToSpill(spill: Spill): void {
    for (const source of this.#list) this.#spill(source, spill)
    spill.save()
  }

  /**
   * The registry's templates of an AID: as the last clean stop left them, else rebuilt (X33). Templates from a spill
   * replace them.
   */
  #kept(aid: number): Map<number, SlotHistory> {
    const templates = new Map<number, SlotHistory>()
    for (const { tid, signature, slots, stale, ts: newest } of this.#options.registry?.load(aid) ?? []) {
      const texts = slots ?? stale
      const ts = Math.max(0, newest)
      if (!texts) continue
      try {
        const read = readFull(templateText(signature, texts, msToken(ts)), isPlainSignature(signature))
        if (read.signature !== signature) continue
        const history = new SlotHistory(shapeOf(read))
        history.begin(-1, false)
        history.fill(read.sensors, this.#options.metaOf)
        history.keep(ts)
        if (newest < 0) history.rebuild()
        templates.set(tid, history)
      } catch {
        this.#options.damaged()
      }
    }
    return templates
  }

  /** The templates of an AID for the registry. */
  readonly toKeep = (aid: number): KeptTemplate[] => {
    const templates = this.#byAid.get(aid)?.scopes.get(BARE)?.templates ?? this.#spilled(aid)
    return [...templates]
      .filter(([, history]) => history.known)
      .sort(([a], [b]) => a - b)
      .map(([tid, history]) => {
        const slots: string[] = []
        for (let i = 0; i < history.count; i++) {
          const { meta, n } = history.newestSlot(i)
          slots.push(meta.text, encodeInteger(n))
        }
        const { signature } = history.shape
        return history.rebuilt
          ? { tid, signature, slots: null, stale: slots, ts: -1 }
          : { tid, signature, slots, ts: history.newest }
      })
  }

  #spilled(aid: number): ReadonlyMap<number, SlotHistory> | [] {
    const packed = this.#options.spill?.peek(aid)
    if (!packed) return []
    try {
      const { scopes } = unpackSource(packed, this.#options.metaOf)
      return scopes.find(({ epoch }) => epoch === BARE)?.templates ?? []
    } catch {
      // reported when the source is heard again
      return []
    }
  }

  /** AIDs that sent bare frames. */
  *bareAids(): Iterable<number> {
    for (const [aid, source] of this.#byAid) if (source.scopes.has(BARE)) yield aid
  }
}
