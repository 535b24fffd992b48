// The gateway's receiver (D6): frame → fact record in canonical units. Frames may come late, twice or not at all. A late
// FULL is decoded from its own text and not learned; a late DIFF or HEART is decoded on the newest kept state that is not
// newer than it. A frame with the time of the newest one is not late and builds on it (whole seconds); one without a time
// (TS 0) comes after everything heard before and is stamped here, later than the last (X11). Where no such state or
// template is, the frame is refused with needFull, never guessed. A frame that is broken is an error with a code; nothing
// throws and nothing of the state moves. What is remembered, and how it is bounded: sources.ts.
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import { NO_VALUE } from '../wire/base62'
import type { FrameHeader } from '../wire/frame'
import { Engine, fromWire } from './compress'
import type { Fact, SensorFact } from './fact'
import { isFirmware, readFirmware } from './firmware'
import { isBelow, isStale, STEP_BACK_FRAMES, STEP_BACK_MS } from './min-timestamps'
import {
  frameTime,
  type InboundKeys,
  isDiff,
  isFull,
  isHeart,
  type Opened,
  openFrame,
  type PacketMeta,
} from './receive'
import type { PartOptions, ReceiveCode, Received, ReceiverCounters, ReceiverOptions } from './received'
import { type KeptTemplate, Registry, type TemplateFiles } from './registry'
import { type MetaInfo, type MetaOf, Metas } from './slot-meta-cache'
import { EXACT, type FullText, LAX, readFull, SlotHistory, shapeHash, shapeOf, WARY } from './slots'
import { AHEAD, BARE, type Scope, type Source, Sources } from './sources'
import { Spill } from './spill'
import { isPlainText, stripAid, tokenMs } from './text'

export type { Received, ReceiverOptions }

/** of the memory for templates, what is for packed ones: they take a fifth of the room */
const PACKED_PART = 0.25
const FILES_PER_FLUSH = 4

export class Receiver {
  readonly counters: ReceiverCounters = { facts: 0, late: 0, lateDropped: 0, errors: 0, unitAmbiguous: 0, forgotten: 0 }
  readonly registry: Registry | null
  readonly spill: Spill | null
  readonly #files: TemplateFiles | null
  readonly #reference: boolean
  readonly #sources: Sources
  readonly #metas: Metas
  readonly #precision: number
  readonly #clock: Clock
  readonly #inboundKey: InboundKeys | null
  readonly #stamp: ((aid: number) => number) | null
  readonly #latest: () => number
  /** of the frame being decoded */
  #key: Uint8Array | null = null
  #advanced = false
  /** of a frame that is replayed: whether it was too far ahead when it came */
  #future: boolean | null = null
  readonly #metaText: MetaOf = (text, plain) => this.#metas.of(text, plain)
  readonly #metaBytes = (bytes: Uint8Array, from: number, to: number, plain: boolean): MetaInfo =>
    this.#metas.of(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8'), plain)

  constructor(options: PartOptions = {}) {
    this.#clock = options.clock ?? systemClock
    const engine =
      options.engine ??
      new Engine(null, { precision: options.precision, unitDialect: options.dialect, units: options.units })
    this.#precision = engine.precision
    this.#metas = new Metas(engine.unitDialect, engine.units)
    this.#inboundKey = options.inboundKey ?? null
    this.#stamp = options.stamp ?? null
    this.#latest = options.latest ?? (() => Number.POSITIVE_INFINITY)
    this.registry = options.registryDir ? new Registry(options.registryDir, options.files, 1000, this.#clock) : null
    this.#files = options.registry ?? this.registry
    this.#reference = options.reference ?? false
    const bytes = options.maxBytes ?? 32 << 20
    const { spillDir } = options
    this.spill = spillDir
      ? new Spill({
          dir: spillDir,
          files: options.files ?? realFiles,
          memoryBytes: Math.floor(bytes * PACKED_PART),
          diskBytes: options.spillBytes ?? Number.POSITIVE_INFINITY,
          lost: (aid, newest) => this.#sources.lost(aid, newest),
        })
      : null
    // a file each takes a sync each: a crowd of new nodes must not hold up the loop
    if (this.spill && this.registry) this.registry.perFlush = FILES_PER_FLUSH
    this.#sources = new Sources({
      maxSources: options.maxSources ?? (this.spill ? 65_536 : 4096),
      maxBytes: this.spill ? Math.ceil(bytes * (1 - PACKED_PART)) : bytes,
      spill: this.spill,
      metaOf: this.#metaText,
      forgotten: templates => {
        this.counters.forgotten += templates
      },
      registry: this.#files,
      damaged: () => this.counters.errors++,
    })
  }

  /**
   * Decodes one frame. `packet` is only read during the call. `epoch` is the peer's run where the frame came inside the
   * delivery exchange: each run has templates of its own.
   */
  receive(packet: Uint8Array, epoch = BARE): Received {
    const now = this.#clock.wall()
    const opened = openFrame(packet, now, this.#inboundKey)
    const received = this.#opened(opened, epoch, now)
    if (received.kind === 'error' && opened.header) this.#refused(opened.header, epoch, received.code, now)
    return received
  }

  #opened(opened: Opened, epoch: number, now: number): Received {
    const { meta } = opened
    if (!opened.ok) return this.#refuse(opened.code, opened.error, meta)
    const { header, bytes, from: first, to } = opened
    this.#key = to > first ? opened.key : null
    this.#advanced = false
    const { sourceAid, tid } = header
    const base = meta.base_cmd!
    const full = isFull(base)
    const heart = isHeart(base)
    if (!heart && !full && !isDiff(base))
      return this.#refuse('UNKNOWN_COMMAND', `Unknown Command 0x${header.cmd.toString(16).toUpperCase()}`, meta)
    const time = frameTime(header.ts, now)
    if (this.#future ?? (time > now && time > this.#latest())) meta.future = true
    const ahead = meta.future === true && epoch === BARE
    const scope = full
      ? this.#sources.scope(sourceAid, ahead ? AHEAD : epoch, now)
      : ahead
        ? this.#ahead(sourceAid, tid, now)
        : this.#sources.find(sourceAid, epoch, now)
    const history = scope?.templates.get(tid)
    // what has no time follows on what was heard last
    const newest = Math.max(0, history?.newest ?? 0)
    const ts = header.ts === 0 ? newest : this.#reference ? Math.max(newest, time) : time
    meta.timestamp_raw = header.ts === 0 ? (scope ? this.#stamped(scope.source, sourceAid, now) : now) : time
    if (full) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset + first, to - first).toString('utf8')
      return this.#full(scope!, header, ts, text, meta)
    }
    if (!history)
      return this.#refuse('NEED_FULL', `Template ${meta.tid} missing for 0x${base.toString(16).toUpperCase()}`, meta)
    if (history.count === 0) return this.#refuse('NEED_FULL', `No cached values for TID=${meta.tid}`, meta)
    const late = ts < history.newest
    if (late) meta.late = true
    if (history.rebuilt && !late && !isBelow(scope!.source.minTimestamps, history.shape.hash, ts))
      return this.#rebuilt(history, header, heart ? null : opened, ts, meta)
    // what a rebuilt template was at an earlier time is not known
    const from = history.rebuilt ? -1 : history.stateFor(ts)
    if (from < 0 && !late && !history.rebuilt)
      return this.#refuse('NEED_FULL', `TID=${meta.tid} waits for a FULL`, meta)
    if (from < 0) {
      history.lateRun++
      this.counters.lateDropped++
      return this.#refuse('LATE_DROPPED', `frame of ${ts} is older than every kept state of TID=${meta.tid}`, meta)
    }
    history.begin(from, late)
    const reading = meta.secure ? WARY : this.#reference ? LAX : EXACT
    if (!heart && !history.apply(bytes, first, to, this.#metaBytes, reading)) {
      // the reference keeps what it read
      if (reading === LAX) this.#keep(history, ts)
      // its CRC holds, so the template is another than the sender's: a FULL mends that
      return this.#refuse('NEED_FULL', 'DIFF body does not fit its template', meta)
    }
    if (late) {
      history.lateRun++
      this.counters.late++
    } else this.#keep(history, ts)
    if (history.unitChanged && epoch === BARE) this.#learned(sourceAid)
    return this.#fact(history, sourceAid, meta.timestamp_raw, meta)
  }

  /**
   * A bare DIFF or HEART on a template from before an unclean stop: its sender may never send a FULL again (X33). What the
   * DIFF carries is given with the states and units of the template, what it does not carry is left out. `opened` is null for
   * a HEART, which says that the device is alive and nothing more.
   */
  #rebuilt(
    history: SlotHistory,
    { sourceAid }: FrameHeader,
    opened: (Opened & { ok: true }) | null,
    ts: number,
    meta: PacketMeta,
  ): Received {
    meta.template_rebuilt = true
    if (!opened) return this.#refuse('NEED_FULL', `the values of TID=${meta.tid} are from before a restart`, meta)
    history.beginRebuilt()
    if (!history.apply(opened.bytes, opened.from, opened.to, this.#metaBytes, WARY))
      return this.#refuse('NEED_FULL', 'DIFF body does not fit its template', meta)
    this.#keep(history, ts)
    if (history.unitChanged) this.#learned(sourceAid)
    const received = this.#fact(history, sourceAid, meta.timestamp_raw!, meta)
    if (received.kind === 'fact' && received.fact.sensors.length > 0) return received
    return this.#refuse('NEED_FULL', `the DIFF carries no value of TID=${meta.tid}`, meta)
  }

  /** A bare template was learned, or a unit of it changed: its file is written anew. */
  #learned(aid: number): void {
    if (!this.#files) return
    this.#files.learned(aid)
    this.#files.flush(this.#sources.toKeep)
  }

  /**
   * A frame of a run that could not be used: with `diff_base: last` what comes next builds on it, and a HEART or a small DIFF
   * would fit what was before. So nothing does until a FULL. A late frame is nothing to build on; outside of the exchange frames
   * may be anybody's.
   */
  #refused({ sourceAid, tid }: FrameHeader, epoch: number, code: ReceiveCode, now: number): void {
    if (epoch !== BARE && code !== 'LATE_DROPPED')
      this.#sources.find(sourceAid, epoch, now)?.templates.get(tid)?.invalidate()
  }

  #full(scope: Scope, header: FrameHeader, ts: number, body: string, meta: PacketMeta): Received {
    const { sourceAid: aid, tid } = header
    // a wrong key agrees with the checksum once in 256 frames, and makes noise: a peer's text begins with its AID, the
    // firmware's is plain text
    const foreign = meta.secure && !body.startsWith(`${aid};`)
    if (foreign && !isPlainText(body)) {
      meta.crc8_ok = false
      return this.#refuse('BAD_KEY', 'CRC8 mismatch', meta)
    }
    try {
      const firmware = readFirmware(body, aid, ts)
      const plain = isFirmware(body, header.ts)
      const reported = readFull(firmware?.text ?? stripAid(body), plain)
      // the frame's own TS is the time; the token only has to be one
      if (!/^[\w-]{8}$/.test(reported.token)) tokenMs(reported.token)
      const learn = (read: FullText): SlotHistory => this.#learn(scope, aid, tid, ts, read, meta)
      if (!firmware || firmware.template === firmware.text)
        return this.#fact(learn(reported), aid, meta.timestamp_raw!, meta)
      // what the firmware's next DIFF builds on is less than what this FULL tells
      if (firmware.template !== null) learn(readFull(firmware.template, plain))
      const history = new SlotHistory(shapeOf(reported))
      history.begin(-1, true)
      history.fill(reported.sensors, this.#metaText)
      return this.#fact(history, aid, meta.timestamp_raw!, meta)
    } catch (thrown) {
      return this.#refuse(foreign ? 'BAD_KEY' : 'BAD_PACKET', asOsError(thrown).message, meta)
    }
  }

  /** The templates of bare frames that are ahead of time; they begin where the others are. */
  #ahead(aid: number, tid: number, now: number): Scope | undefined {
    const scope = this.#sources.find(aid, AHEAD, now)
    if (scope?.templates.has(tid)) return scope
    const history = this.#sources.find(aid, BARE, now)?.templates.get(tid)
    if (!history?.known) return scope
    return this.#sources.hold(this.#sources.scope(aid, AHEAD, now), tid, history.branch())
  }

  /** Takes a FULL's text as the state of its template, unless it is late; the history to read it from. Throws BAD_TEXT. */
  #learn(scope: Scope, aid: number, tid: number, ts: number, read: FullText, meta: PacketMeta): SlotHistory {
    const known = scope.templates.get(tid)
    const same = known?.shape.signature === read.signature
    const history = known && same ? known : new SlotHistory(shapeOf(read))
    const late = known ? this.#late(known, ts) : ts > 0 && isStale(scope, history.shape.hash, ts)
    const before = history.weight
    // nor may a late DIFF be built on what was not known whole
    if (history.rebuilt && !late) history.invalidate()
    history.begin(-1, late)
    history.fill(read.sensors, this.#metaText)
    if (same) this.#sources.weigh(scope, tid, history.weight - before)
    if (late) {
      if (known) {
        known.lateRun++
        // two meanings of one TID, and their times do not tell which is the newer: nothing may be built on either
        if (!same) known.invalidate()
      }
      meta.late = true
      this.counters.late++
      return history
    }
    if (!same) this.#sources.hold(scope, tid, history)
    this.#keep(history, ts)
    meta.template_learned = true
    if (scope.epoch === BARE && (!same || history.unitChanged)) this.#learned(aid)
    else if (this.#files?.hasDirty) this.#files.flush(this.#sources.toKeep)
    return history
  }

  #keep(history: SlotHistory, ts: number): void {
    if (ts > history.newest) this.#advanced = true
    history.keep(ts)
  }

  /** Older than what this template had; unless so many are that the sender's clock must have been set back. */
  #late(history: SlotHistory, ts: number): boolean {
    if (ts >= history.newest) return false
    if (history.lateRun < STEP_BACK_FRAMES || history.newest - ts <= STEP_BACK_MS) return true
    history.clear()
    return false
  }

  /** A time of its own for a frame without one. */
  #stamped(source: Source, aid: number, now: number): number {
    source.stamp = Math.max(source.stamp + 1, Math.floor(this.#stamp ? this.#stamp(aid) : now))
    return source.stamp
  }

  /** After a start, for every fact of the log that came from elsewhere: acknowledged before, whatever its template was. */
  remember({ aid, id, state, sensors, extras, tRaw }: Fact): void {
    const ids = sensors.map(sensor => sensor.id)
    this.#sources.remember(aid, shapeHash(id, state, ids, extras), tRaw)
  }

  /**
   * After an unclean stop: a bare packet of the log once more, in the order of the log, so that its template is what it was.
   * `future`: it was too far ahead when it came (X36), whatever the clock says now.
   * One that cannot be read any more (its key is gone) costs that AID its templates. Nothing is counted.
   */
  replay(packet: Uint8Array, aid: number, future = false): void {
    const counters = { ...this.counters }
    this.#future = future
    const received = this.receive(packet)
    this.#future = null
    Object.assign(this.counters, counters)
    if (received.kind === 'error' && !received.needFull) this.forget(aid)
  }

  /** Whether anything is remembered of that AID. */
  knows(aid: number): boolean {
    return this.#sources.has(aid)
  }

  /** The values of an AID's bare templates may be behind: of a DIFF only what it carries counts, until a FULL (X33). */
  rebuild(aid: number): void {
    this.#sources.rebuild(aid)
  }

  /** Bare packets of that AID need a FULL again. */
  forget(aid: number): void {
    this.#sources.forget(aid)
  }

  #fact(history: SlotHistory, aid: number, tRaw: number, meta: PacketMeta): Received {
    const { shape } = history
    const sensors: SensorFact[] = []
    // its states may be behind: the text of no value says enough then
    const needFull = meta.template_rebuilt === true
    for (let i = 0; i < history.count; i++) {
      if (!history.knows(i)) continue
      const info = history.meta(i)
      const n = history.number(i)
      const value = n !== NO_VALUE ? fromWire(n, this.#precision, info) : info.failed || needFull ? null : info.offset
      if (info.ambiguous) this.counters.unitAmbiguous++
      sensors.push({ id: history.ids[i]!, status: info.status, unit: info.unit, value })
    }
    this.counters.facts++
    const fact: Fact = { id: shape.id, state: shape.state, tRaw, aid, sensors }
    if (shape.extras) fact.extras = shape.extras
    const { reshaped } = history
    return { kind: 'fact', fact, meta, advanced: this.#advanced, reshaped, needFull, key: this.#key }
  }

  #refuse(code: ReceiveCode, message: string, meta: PacketMeta): Received {
    this.counters.errors++
    return { kind: 'error', code, message, meta, needFull: code === 'NEED_FULL' || code === 'LATE_DROPPED' }
  }

  /** A template as its newest frame left it; null when there is none. */
  template(aid: number, tid: number): KeptTemplate | null {
    return this.templates(aid).find(kept => kept.tid === tid) ?? null
  }

  /** The bare templates of an AID as their newest frames left them. */
  templates(aid: number): KeptTemplate[] {
    return this.#sources.toKeep(aid)
  }

  /** AIDs that sent bare frames. */
  bareAids(): Iterable<number> {
    return this.#sources.bareAids()
  }

  /** Clean stop: writes every template and the mark that lets the next run use them (D4). */
  save(): void {
    if (this.spill) {
      this.registry?.flush(this.#sources.toKeep)
      this.#sources.saveToSpill(this.spill)
    } else this.registry?.stop(this.#sources.bareAids(), this.#sources.toKeep)
  }

  /** bytes the templates take, roughly */
  get weight(): number {
    return this.#sources.weight
  }

  /** how many AIDs are remembered */
  get sources(): number {
    return this.#sources.size
  }
}
