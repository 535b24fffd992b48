// What a receiver remembers of its sources: per AID the templates of bare frames and, apart from them, those of each run
// that speaks the delivery exchange (an epoch names one run of one sender). So two gateways that were given the same AID,
// or the runs before and after a restart, never build on each other's templates. Bounded: the AIDs, and within an AID the
// runs, not heard for longest go first and have to send a FULL again. Only bare templates go to the registry: a run
// that outlives this process is asked for its key frames once.
import { encodeInteger } from '../wire/base62'
import { TextTemplate } from './receive'
import type { KeptTemplate, Registry } from './registry'
import { type FullText, readFull, SlotHistory, shapeOf } from './slots'
import { msToken } from './text'

/** templates of bare frames; every other scope is an epoch of the delivery exchange */
export const BARE = -1

/** runs of one AID that are remembered, and for how long one may be silent while others come */
const MAX_RUNS = 8
const SILENT_MS = 3_600_000
/** contents of one AID whose newest time is remembered, and AIDs */
const MAX_FLOORS = 256
const MAX_FLOORED = 16_384

/** Newest time of a content that may have been acknowledged before its template was forgotten. */
export interface Floor {
  ts: number
  lateRun: number
}

export interface Scope {
  readonly source: Source
  readonly epoch: number
  readonly templates: Map<number, SlotHistory>
  /** bytes of all its templates */
  weight: number
  heardAt: number
}

type Floors = Map<number, Floor>

export interface Source {
  readonly scopes: Map<number, Scope>
  /** by shape: a FULL older than this is no base for the DIFFs of a peer whose packets are acknowledged */
  readonly floors: Floors
  /** the last time a frame without one was stamped with */
  stamp: number
  used: number
}

function raiseFloor(floors: Floors, shape: number, ts: number): void {
  const floor = floors.get(shape)
  if (floor && floor.ts >= ts) return
  floors.delete(shape)
  floors.set(shape, { ts, lateRun: 0 })
  if (floors.size > MAX_FLOORS) floors.delete(floors.keys().next().value!)
}

export interface SourcesOptions {
  maxSources: number
  /** bytes all templates may take, roughly */
  maxBytes: number
  registry: Registry | null
  /** makes the newest state of a kept template; throws when its text is broken */
  restore: (history: SlotHistory, full: FullText, ts: number) => void
  /** told of a kept template that does not hold together; it costs a NEED_FULL, nothing more */
  damaged: () => void
  /** told of templates given up for want of room */
  forgotten: (templates: number) => void
}

export class Sources {
  readonly #options: SourcesOptions
  readonly #byAid = new Map<number, Source>()
  /** of the AIDs in the log and of those forgotten since, the newest last; no file is read for them before they are heard */
  readonly #floors = new Map<number, Floors>()
  #tick = 0
  #weight = 0

  constructor(options: SourcesOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#byAid.size
  }

  /** bytes the templates take, roughly */
  get weight(): number {
    return this.#weight
  }

  /** A content that was acknowledged in an earlier life. */
  remember(aid: number, shape: number, ts: number): void {
    const floors: Floors = this.#floors.get(aid) ?? new Map()
    raiseFloor(floors, shape, ts)
    this.#keepFloors(aid, floors)
  }

  #keepFloors(aid: number, floors: Floors): void {
    if (floors.size === 0) return
    this.#floors.delete(aid)
    this.#floors.set(aid, floors)
    if (this.#floors.size > MAX_FLOORED) this.#floors.delete(this.#floors.keys().next().value!)
  }

  /** The templates of that run, for a FULL. `now`: wall ms; a jump of it costs a NEED_FULL at most. */
  scope(aid: number, epoch: number, now: number): Scope {
    const source = this.#known(aid) ?? this.#add(aid, this.#kept(aid))
    let scope = source.scopes.get(epoch)
    if (!scope) {
      this.#dropRuns(source, now)
      scope = { source, epoch, templates: new Map(), weight: 0, heardAt: now }
      source.scopes.set(epoch, scope)
    }
    scope.heardAt = now
    return scope
  }

  /** The same for a DIFF or HEART: undefined where there is nothing, so that strangers take nobody's place. */
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

  #known(aid: number): Source | undefined {
    const source = this.#byAid.get(aid)
    if (source) source.used = ++this.#tick
    return source
  }

  #add(aid: number, templates: Map<number, SlotHistory>): Source {
    if (this.#byAid.size >= this.#options.maxSources) this.#forgetOldest()
    const floors: Floors = this.#floors.get(aid) ?? new Map()
    const source: Source = { scopes: new Map(), floors, stamp: 0, used: ++this.#tick }
    if (templates.size > 0) {
      const weight = [...templates.values()].reduce((sum, history) => sum + history.weight, 0)
      source.scopes.set(BARE, { source, epoch: BARE, templates, weight, heardAt: 0 })
      this.#weight += weight
    }
    this.#byAid.set(aid, source)
    return source
  }

  /** Keeps a template under its TID. */
  hold(scope: Scope, tid: number, history: SlotHistory): void {
    const before = scope.templates.get(tid)?.weight ?? 0
    scope.templates.set(tid, history)
    this.weigh(scope, tid, history.weight - before)
  }

  /** Books that the template of a TID takes more memory, and makes room where it has become too much. */
  weigh(scope: Scope, tid: number, more: number): void {
    const { maxBytes } = this.#options
    scope.weight += more
    this.#weight += more
    while (this.#weight > maxBytes && this.#byAid.size > 1) this.#forgetOldest()
    if (this.#weight <= maxBytes) return
    // one source alone: its other runs and templates have to be sent again
    const { source } = scope
    for (const other of source.scopes.values()) if (other !== scope) this.#dropRun(other)
    for (const [other, history] of scope.templates) {
      if (other === tid) continue
      scope.templates.delete(other)
      scope.weight -= history.weight
      this.#weight -= history.weight
      raiseFloor(source.floors, history.shape.hash, history.newest)
      this.#options.forgotten(1)
    }
  }

  /** Makes room for one more run. What a dropped one had acknowledged stays known by its floors. */
  #dropRuns(source: Source, now: number): void {
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
    // what came bare was never acknowledged
    if (epoch === BARE) return
    for (const history of templates.values()) raiseFloor(source.floors, history.shape.hash, history.newest)
  }

  /** The bare templates of an AID are not to be built on any more. */
  forget(aid: number): void {
    const scopes = this.#byAid.get(aid)?.scopes
    this.#weight -= scopes?.get(BARE)?.weight ?? 0
    scopes?.delete(BARE)
  }

  /** the quarter that was not heard for longest, so that the search is rare */
  #forgetOldest(): void {
    const byAge = [...this.#byAid].sort((a, b) => a[1].used - b[1].used)
    for (const [aid, { scopes, floors }] of byAge.slice(0, Math.max(1, byAge.length >> 2))) {
      this.#byAid.delete(aid)
      for (const scope of scopes.values()) this.#dropRun(scope)
      this.#keepFloors(aid, floors)
    }
  }

  /** What the last clean stop left of an AID. */
  #kept(aid: number): Map<number, SlotHistory> {
    const templates = new Map<number, SlotHistory>()
    for (const { tid, signature, slots, ts } of this.#options.registry?.load(aid) ?? []) {
      if (!slots || ts < 0) continue
      try {
        const read = readFull(new TextTemplate(signature, slots).text(msToken(ts)))
        if (read.signature !== signature) continue
        const history = new SlotHistory(shapeOf(read))
        this.#options.restore(history, read, ts)
        templates.set(tid, history)
      } catch {
        this.#options.damaged()
      }
    }
    return templates
  }

  /** What goes to the registry of an AID. */
  readonly toKeep = (aid: number): KeptTemplate[] => {
    const templates = this.#byAid.get(aid)?.scopes.get(BARE)?.templates ?? []
    return [...templates]
      .filter(([, history]) => history.known)
      .sort(([a], [b]) => a - b)
      .map(([tid, history]) => {
        const slots: string[] = []
        for (let i = 0; i < history.count; i++) {
          const { meta, n } = history.newestSlot(i)
          slots.push(meta.text, encodeInteger(n))
        }
        return { tid, signature: history.shape.signature, slots, ts: history.newest }
      })
  };

  /** AIDs that sent bare frames. */
  *bareAids(): Iterable<number> {
    for (const [aid, source] of this.#byAid) if (source.scopes.has(BARE)) yield aid
  }
}
