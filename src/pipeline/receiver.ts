// The gateway's receiver (D6): frame → fact record in canonical units. Frames may come late, twice or not at all. A late
// FULL is decoded from its own text and not learned; a late DIFF or HEART is decoded on the newest kept state that is not
// newer than it. Where no such state or template is, the frame is refused with needFull, never guessed. A frame that is
// broken is an error with a code; nothing throws and nothing of the state moves. Sources are bounded: the least recently
// heard AIDs are forgotten first and have to send a FULL again.
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import { encodeInteger, unscale } from '../wire/base62'
import { readHeader } from '../wire/frame'
import { Engine } from './compress'
import type { UnitDialect, WireUnits } from './core'
import type { Fact, SensorFact } from './fact'
import { readFirmware } from './firmware'
import { type MetaInfo, Metas } from './metas'
import { frameTime, isDiff, isFull, isHeart, openFrame, type PacketMeta, TextTemplate } from './receive'
import { type KeptTemplate, Registry } from './registry'
import { type FullText, readFull, SlotHistory, shapeOf } from './slots'
import { msToken, stripAid } from './text'

export interface ReceiverOptions {
  precision?: number
  dialect?: UnitDialect
  units?: WireUnits
  engine?: Engine
  clock?: Clock
  files?: Files
  /** null = templates live in memory only */
  registryDir?: string | null
  /** session key of a source, null when there is none */
  inboundKey?: ((aid: number) => Uint8Array | null) | null
  maxSources?: number
  /** bytes all templates may take, roughly */
  maxBytes?: number
}

export type ReceiveCode = 'BAD_PACKET' | 'NO_KEY' | 'BAD_KEY' | 'UNKNOWN_COMMAND' | 'NEED_FULL' | 'LATE_DROPPED'

export type Received =
  | { readonly kind: 'fact'; readonly fact: Fact; readonly meta: PacketMeta; readonly duplicateKey: number }
  | {
      readonly kind: 'error'
      readonly code: ReceiveCode
      readonly message: string
      readonly meta: PacketMeta
      readonly needFull: boolean
    }

export interface ReceiverCounters {
  facts: number
  late: number
  lateDropped: number
  errors: number
  unitAmbiguous: number
  /** templates given up because there were too many sources or too much of them */
  forgotten: number
}

interface SourceState {
  templates: Map<number, SlotHistory>
  /** of all its templates */
  weight: number
  used: number
}

/** a sender whose clock was set back by more than this is believed after so many late frames */
const STEP_BACK_MS = 600_000
const STEP_BACK_FRAMES = 8

export class Receiver {
  readonly counters: ReceiverCounters = { facts: 0, late: 0, lateDropped: 0, errors: 0, unitAmbiguous: 0, forgotten: 0 }
  readonly registry: Registry | null
  readonly #sources = new Map<number, SourceState>()
  readonly #metas: Metas
  readonly #precision: number
  readonly #clock: Clock
  readonly #inboundKey: ((aid: number) => Uint8Array | null) | null
  readonly #maxSources: number
  readonly #maxBytes: number
  #weight = 0
  #tick = 0
  readonly #double = new Float64Array(1)
  readonly #words = new Uint32Array(this.#double.buffer)
  readonly #metaText = (text: string): MetaInfo => this.#metas.of(text)
  readonly #metaBytes = (bytes: Uint8Array, from: number, to: number): MetaInfo =>
    this.#metas.of(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8'))

  constructor(options: ReceiverOptions = {}) {
    this.#clock = options.clock ?? systemClock
    const engine =
      options.engine ??
      new Engine(null, { precision: options.precision, unitDialect: options.dialect, units: options.units })
    this.#precision = engine.precision
    this.#metas = new Metas(engine.unitDialect, engine.units)
    this.#inboundKey = options.inboundKey ?? null
    this.#maxSources = options.maxSources ?? 4096
    this.#maxBytes = options.maxBytes ?? 32 << 20
    this.registry = options.registryDir ? new Registry(options.registryDir, options.files, 1000, this.#clock) : null
  }

  /** Decodes one frame. `packet` is only read during the call. */
  receive(packet: Uint8Array): Received {
    const now = this.#clock.wall()
    const opened = openFrame(packet, now, this.#inboundKey)
    const { meta } = opened
    if (!opened.ok) return this.#refuse(opened.code, opened.error, meta)
    const { header, bytes, from: first, to } = opened
    const base = meta.base_cmd!
    const ts = frameTime(header.ts, now)
    meta.timestamp_raw = ts
    const source = this.#source(header.sourceAid)
    if (isFull(base)) return this.#full(source, header.sourceAid, header.tid, ts, bytes, first, to, meta)
    const heart = isHeart(base)
    if (!heart && !isDiff(base))
      return this.#refuse('UNKNOWN_COMMAND', `Unknown Command 0x${header.cmd.toString(16).toUpperCase()}`, meta)
    const history = source.templates.get(header.tid)
    if (!history)
      return this.#refuse('NEED_FULL', `Template ${meta.tid} missing for 0x${base.toString(16).toUpperCase()}`, meta)
    if (history.count === 0) return this.#refuse('NEED_FULL', `No cached values for TID=${meta.tid}`, meta)
    const late = ts < history.newest
    if (late) meta.late = true
    const from = history.stateFor(ts)
    if (from < 0) {
      history.lateRun++
      this.counters.lateDropped++
      return this.#refuse('LATE_DROPPED', `frame of ${ts} is older than every kept state of TID=${meta.tid}`, meta)
    }
    history.begin(from, late)
    if (!heart && !history.apply(bytes, first, to, this.#metaBytes))
      // its CRC holds, so the template is another than the sender's: a FULL mends that
      return this.#refuse('NEED_FULL', 'DIFF body does not fit its template', meta)
    if (late) {
      history.lateRun++
      this.counters.late++
    } else history.keep(ts)
    return this.#fact(history, header.sourceAid, ts, meta)
  }

  #full(
    source: SourceState,
    aid: number,
    tid: number,
    ts: number,
    bytes: Uint8Array,
    first: number,
    to: number,
    meta: PacketMeta,
  ): Received {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + first, to - first).toString('utf8')
    try {
      const firmware = readFirmware(text, aid, ts)
      const told = readFull(firmware?.text ?? stripAid(text))
      if (!firmware || firmware.template === firmware.text)
        return this.#fact(this.#learn(source, aid, tid, ts, told, meta), aid, ts, meta)
      // what the firmware's next DIFF builds on is less than what this FULL tells
      if (firmware.template !== null) this.#learn(source, aid, tid, ts, readFull(firmware.template), meta)
      const history = new SlotHistory(shapeOf(told))
      history.begin(-1, true)
      history.fill(told.sensors, this.#metaText)
      return this.#fact(history, aid, ts, meta)
    } catch (thrown) {
      return this.#refuse('BAD_PACKET', asOsError(thrown).message, meta)
    }
  }

  /** Takes a FULL's text as the state of its template, unless it is late; the history to read it from. Throws BAD_TEXT. */
  #learn(source: SourceState, aid: number, tid: number, ts: number, read: FullText, meta: PacketMeta): SlotHistory {
    let history = source.templates.get(tid)
    let late = history !== undefined && ts < history.newest
    if (late && history!.lateRun >= STEP_BACK_FRAMES && history!.newest - ts > STEP_BACK_MS) {
      history!.clear()
      late = false
    }
    if (!history || history.shape.signature !== read.signature) {
      const made = new SlotHistory(shapeOf(read))
      made.begin(-1, late)
      made.fill(read.sensors, this.#metaText)
      // Two meanings of one TID, and their times do not tell which is the newer: nothing may be built on either.
      this.#hold(source, tid, late ? null : made)
      if (!late) this.registry?.learned(aid)
      history = made
    } else {
      const before = history.weight
      history.begin(-1, late)
      history.fill(read.sensors, this.#metaText)
      this.#weigh(source, tid, history.weight - before)
      if (late) history.lateRun++
    }
    if (late) {
      meta.late = true
      this.counters.late++
    } else {
      history.keep(ts)
      meta.template_learned = true
      if (this.registry?.hasDirty) this.registry.flush(this.#kept)
    }
    return history
  }

  #fact(history: SlotHistory, aid: number, tRaw: number, meta: PacketMeta): Received {
    const { shape } = history
    const sensors: SensorFact[] = []
    const words = this.#words
    let h = shape.hash
    let g = ~h
    for (let i = 0; i < history.count; i++) {
      const info = history.meta(i)
      const n = history.number(i)
      let value: number | null = null
      if (n !== 0 || !info.failed) {
        const x = unscale(n, this.#precision)
        value = (info.divisor ? x / info.divisor : x * info.factor) + info.offset
        this.#double[0] = value
        h = Math.imul(h ^ words[0]!, 0x01000193) ^ words[1]!
        g = Math.imul(g ^ words[1]!, 0x85ebca6b) ^ words[0]!
      }
      if (info.ambiguous) this.counters.unitAmbiguous++
      h = Math.imul(h ^ info.hash ^ (h >>> 15), 0x2c1b3c6d)
      g = Math.imul(g ^ info.hash ^ (g >>> 13), 0x297a2d39)
      sensors.push({ id: history.ids[i]!, status: info.status, unit: info.unit, value })
    }
    this.counters.facts++
    const fact: Fact = { id: shape.id, state: shape.state, tRaw, aid, sensors }
    if (shape.extras) fact.extras = shape.extras
    return { kind: 'fact', fact, meta, duplicateKey: (h >>> 0) * 2097152 + (g >>> 11) }
  }

  #refuse(code: ReceiveCode, message: string, meta: PacketMeta): Received {
    this.counters.errors++
    return { kind: 'error', code, message, meta, needFull: code === 'NEED_FULL' || code === 'LATE_DROPPED' }
  }

  #source(aid: number): SourceState {
    let source = this.#sources.get(aid)
    if (!source) {
      if (this.#sources.size >= this.#maxSources) this.#forgetOldest()
      source = { templates: new Map(), weight: 0, used: ++this.#tick }
      this.#sources.set(aid, source)
      for (const kept of this.registry?.load(aid) ?? []) this.#restore(source, kept)
    }
    source.used = ++this.#tick
    return source
  }

  /** A template as the last clean stop left it; one that does not hold together counts as missing. */
  #restore(source: SourceState, { tid, signature, slots, ts }: KeptTemplate): void {
    if (!slots || ts < 0) return
    try {
      const read = readFull(new TextTemplate(signature, slots).text(msToken(ts)))
      if (read.signature !== signature) return
      const history = new SlotHistory(shapeOf(read))
      history.begin(-1, false)
      history.fill(read.sensors, this.#metaText)
      history.keep(ts)
      this.#hold(source, tid, history)
    } catch {
      // a damaged file costs a NEED_FULL, nothing more
      this.counters.errors++
    }
  }

  /** Keeps a template under its TID, or none. */
  #hold(source: SourceState, tid: number, history: SlotHistory | null): void {
    const before = source.templates.get(tid)?.weight ?? 0
    if (history) source.templates.set(tid, history)
    else source.templates.delete(tid)
    this.#weigh(source, tid, (history?.weight ?? 0) - before)
  }

  /** Books that a template takes more or less memory, and makes room where it has become too much. */
  #weigh(source: SourceState, tid: number, more: number): void {
    source.weight += more
    this.#weight += more
    while (this.#weight > this.#maxBytes && this.#sources.size > 1) this.#forgetOldest()
    if (this.#weight <= this.#maxBytes || source.templates.size < 2) return
    // one source alone: its other templates have to be sent again
    const kept = source.templates.get(tid)
    this.counters.forgotten += source.templates.size - 1
    source.templates.clear()
    if (kept) source.templates.set(tid, kept)
    this.#weight = source.weight = kept?.weight ?? 0
  }

  /** the quarter that was not heard for longest, so that the search is rare */
  #forgetOldest(): void {
    const byAge = [...this.#sources].sort((a, b) => a[1].used - b[1].used)
    for (const [aid, source] of byAge.slice(0, Math.max(1, byAge.length >> 2))) {
      this.#sources.delete(aid)
      this.#weight -= source.weight
      this.counters.forgotten += source.templates.size
    }
  }

  readonly #kept = (aid: number): KeptTemplate[] =>
    [...(this.#sources.get(aid)?.templates ?? [])]
      .sort(([a], [b]) => a - b)
      .map(([tid, history]) => {
        const slots: string[] = []
        for (let i = 0; i < history.count; i++) {
          const { meta, n } = history.newestSlot(i)
          slots.push(meta.text, encodeInteger(n))
        }
        return { tid, signature: history.shape.signature, slots, ts: history.newest }
      })

  /** Clean stop: writes every template and the mark that lets the next run use them (D4). */
  save(): void {
    this.registry?.stop(this.#sources.keys(), this.#kept)
  }

  /** bytes the templates take, roughly */
  get weight(): number {
    return this.#weight
  }

  /** how many AIDs are known at present */
  get sources(): number {
    return this.#sources.size
  }
}

/** Reason text of a NACK that names the refused frame (X7, X9): `NEED_FULL;<aid>;<tid>;<ts>;<crc16>`. */
export function nackReason(reason: 'NEED_FULL' | 'BAD_KEY', packet: Uint8Array): string | null {
  const header = readHeader(packet)
  if (typeof header === 'string') return null
  const crc = Buffer.from(packet.subarray(packet.length - 2)).toString('hex')
  return `${reason};${header.sourceAid};${header.tid};${header.ts};${crc}`
}
