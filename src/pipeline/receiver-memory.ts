// A receiver's memory: templates in RAM, packed in the spill, and in the registry files. This file creates it, reads
// it, and changes it between frames; sources.ts bounds it.
import type { Clock } from '../lib/clock'
import { realFiles } from '../lib/files'
import type { Fact } from './fact'
import type { PartOptions, ReceiverCounters } from './received'
import { type KeptTemplate, type TemplateFiles, TemplateRegistry } from './registry'
import type { MetaOf } from './slot-meta-cache'
import { shapeHash } from './slots'
import { AidStates } from './sources'
import { Spill } from './spill'

/** share of the template memory for packed ones: they take a fifth of the space */
const PACKED_PART = 0.25
const FILES_PER_FLUSH = 4

export class ReceiverMemory {
  readonly counters: ReceiverCounters = { facts: 0, late: 0, lateDropped: 0, errors: 0, unitAmbiguous: 0, forgotten: 0 }
  readonly registry: TemplateRegistry | null
  readonly spill: Spill | null
  protected readonly files: TemplateFiles | null
  protected readonly memory: AidStates

  constructor(options: PartOptions, clock: Clock, metaOf: MetaOf) {
    this.registry = options.registryDir ? new TemplateRegistry(options.registryDir, options.files, 1000, clock) : null
    this.files = options.registry ?? this.registry
    const bytes = options.maxBytes ?? 32 << 20
    const { spillDir } = options
    this.spill = spillDir
      ? new Spill({
          dir: spillDir,
          files: options.files ?? realFiles,
          memoryBytes: Math.floor(bytes * PACKED_PART),
          diskBytes: options.spillBytes ?? Number.POSITIVE_INFINITY,
          lost: (aid, newest) => this.memory.lost(aid, newest),
        })
      : null
    // each file needs a sync: a crowd of new nodes must not block the loop
    if (this.spill && this.registry) this.registry.perFlush = FILES_PER_FLUSH
    this.memory = new AidStates({
      maxSources: options.maxSources ?? (this.spill ? 65_536 : 4096),
      maxBytes: this.spill ? Math.ceil(bytes * (1 - PACKED_PART)) : bytes,
      spill: this.spill,
      metaOf,
      forgotten: templates => {
        this.counters.forgotten += templates
      },
      registry: this.files,
      damaged: () => this.counters.errors++,
    })
  }

  /** After a start, for every logged fact from another node: it was acknowledged, whatever its template was. */
  remember({ aid, id, state, sensors, extras, tRaw }: Fact): void {
    const ids = sensors.map(sensor => sensor.id)
    this.memory.remember(aid, shapeHash(id, state, ids, extras), tRaw)
  }

  /** Whether anything is remembered of that AID. */
  knows(aid: number): boolean {
    return this.memory.has(aid)
  }

  /** The values of an AID's bare templates may be out of date: of a DIFF only its own values count, until a FULL (X33). */
  rebuild(aid: number): void {
    this.memory.rebuild(aid)
  }

  /** Bare packets of that template need a FULL again. */
  invalidate(aid: number, tid: number): void {
    this.memory.bare(aid)?.templates.get(tid)?.invalidate()
  }

  /** Whether there are templates of bare packets of that AID. */
  hasBare(aid: number): boolean {
    return this.memory.bare(aid) !== undefined
  }

  /** Bare packets of that AID need a FULL again. */
  forget(aid: number): void {
    this.memory.forget(aid)
  }

  /** A bare template was learned, or one of its units changed: its file is written again. */
  protected learned(aid: number): void {
    if (!this.files) return
    this.files.learned(aid)
    this.files.flush(this.memory.toKeep)
  }

  /** A template in the state of its newest frame; null if there is none. */
  template(aid: number, tid: number): KeptTemplate | null {
    return this.templates(aid).find(kept => kept.tid === tid) ?? null
  }

  /** The bare templates of an AID in the state of their newest frames. */
  templates(aid: number): KeptTemplate[] {
    return this.memory.toKeep(aid)
  }

  /** AIDs that sent bare frames. */
  bareAids(): Iterable<number> {
    return this.memory.bareAids()
  }

  /** Clean stop: writes every template and the mark that lets the next run use them (decision 0017). */
  save(): void {
    if (this.spill) {
      this.registry?.flush(this.memory.toKeep)
      this.memory.saveToSpill(this.spill)
    } else this.registry?.stop(this.memory.bareAids(), this.memory.toKeep)
  }

  /** approximate bytes of the templates */
  get weight(): number {
    return this.memory.weight
  }

  /** how many AIDs are remembered */
  get sources(): number {
    return this.memory.size
  }
}
