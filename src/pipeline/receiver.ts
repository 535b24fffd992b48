// The gateway's receiver (D6): frame → fact record in canonical units. Frames may come late, twice or not at all. A late
// FULL is decoded from its own text and not learned; a late DIFF or HEART is decoded on the newest kept state that is not
// newer than it. A frame with the time of the newest one is not late and builds on it (whole seconds); one without a time
// (TS 0) comes after everything heard before and is stamped here, later than the last (X11). Where no such state or
// template is, the frame is refused with needFull, never guessed. A frame that is broken is an error with a code; nothing
// throws and nothing of the state moves. What is remembered, and how it is bounded: sources.ts.
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import { type FrameHeader, readU32 } from '../wire/frame'
import { Engine } from './compress'
import { FactMaker } from './fact-maker'
import { isFirmware, readFirmware } from './firmware'
import { isBelow, isStale, STEP_BACK_FRAMES, STEP_BACK_MS } from './min-timestamps'
import { QuickReader } from './quick'
import {
  frameTime,
  type InboundKeys,
  isDiff,
  isFull,
  isHeart,
  type Opened,
  openFrame,
  type PacketMeta,
  plainFrame,
  plainMeta,
} from './receive'
import type { FactSink, FrameChecks, PartOptions, ReceiveCode, Received, ReceiverOptions } from './received'
import { ReceiverMemory } from './receiver-memory'
import { type MetaInfo, type MetaOf, Metas } from './slot-meta-cache'
import { EXACT, type FullText, LAX, readFull, SlotHistory, shapeOf, WARY } from './slots'
import { AHEAD, BARE, type Scope, type Source } from './sources'
import { isPlainText, stripAid, tokenMs } from './text'

export type { Received, ReceiverOptions }

export class Receiver extends ReceiverMemory {
  readonly #reference: boolean
  readonly #metas: Metas
  readonly #clock: Clock
  readonly #inboundKey: InboundKeys | null
  readonly #stamp: ((aid: number) => number) | null
  readonly #latest: () => number
  readonly #checks: FrameChecks | null
  readonly #quick: QuickReader
  readonly #facts: FactMaker
  /** of the frame being decoded */
  #key: Uint8Array | null = null
  #advanced = false
  /** of a frame that is replayed: whether it was too far ahead when it came */
  #future: boolean | null = null
  readonly #metaText: MetaOf = (text, plain) => this.#metas.of(text, plain)
  readonly #metaBytes = (bytes: Uint8Array, from: number, to: number, plain: boolean): MetaInfo =>
    this.#metas.of(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8'), plain)

  constructor(options: PartOptions = {}) {
    const clock = options.clock ?? systemClock
    const engine =
      options.engine ??
      new Engine(null, { precision: options.precision, unitDialect: options.dialect, units: options.units })
    const metas = new Metas(engine.unitDialect, engine.units)
    super(options, clock, (text, plain) => metas.of(text, plain))
    this.#clock = clock
    this.#metas = metas
    this.#inboundKey = options.inboundKey ?? null
    this.#stamp = options.stamp ?? null
    this.#latest = options.latest ?? (() => Number.POSITIVE_INFINITY)
    this.#reference = options.reference ?? false
    this.#checks = options.checks ?? null
    this.#quick = new QuickReader(this.memory, this.#latest, this.#metaBytes)
    this.#facts = new FactMaker(engine.precision, this.counters)
  }

  /**
   * Decodes one frame. `packet` is only read during the call. `epoch` is the peer's run where the frame came inside the
   * delivery exchange: each run has templates of its own. `seq` is the frame's number in that run: what was left in an old connection and
   * comes behind a newer FULL is not built upon that (LATE_DROPPED).
   */
  receive(packet: Uint8Array, epoch = BARE, seq = 0): Received {
    const now = this.#clock.wall()
    const history = plainFrame(packet, 0, packet.length) ? this.#read(packet, 0, packet.length, epoch, now) : null
    if (history === null) return this.#slow(packet, epoch, now, seq)
    if (seq > history.seq) history.seq = seq
    if (seq > 0 && isFull(packet[0]!)) history.fullSeq = seq
    const fact = this.#facts.make(history, readU32(packet, 2), history.newest)
    const meta = plainMeta(packet, fact)
    const { advanced } = this.#quick
    return { kind: 'fact', fact, meta, advanced, reshaped: history.reshaped, needFull: false, key: null }
  }

  /**
   * Decodes frames that are one after another in `bytes`, each up to its end. What they say goes to `sink` in their order; `checks` does
   * their sums together.
   */
  receiveBatch(bytes: Uint8Array, ends: Int32Array, count: number, sink: FactSink, epoch = BARE): void {
    const now = this.#clock.wall()
    const good = this.#checks?.(bytes, ends, count) ?? null
    for (let k = 0, from = 0; k < count; k++) {
      const to = ends[k]!
      const plain = good === null ? plainFrame(bytes, from, to) : good[k] === 1
      const history = plain ? this.#read(bytes, from, to, epoch, now) : null
      if (history === null) sink.other(k, this.#slow(bytes.subarray(from, to), epoch, now))
      else {
        const fact = this.#facts.make(history, readU32(bytes, from + 2), history.newest)
        sink.fact(k, fact, this.#quick.advanced, history.reshaped)
      }
      from = to
    }
  }

  #read(bytes: Uint8Array, from: number, to: number, epoch: number, now: number): SlotHistory | null {
    if (this.#reference || this.#future !== null) return null
    const history = this.#quick.read(bytes, from, to, epoch, now)
    if (history === null) return null
    if (history.unitChanged && epoch === BARE) this.learned(readU32(bytes, from + 2))
    else if (isFull(bytes[from]!) && this.files?.hasDirty) this.files.flush(this.memory.toKeep)
    return history
  }

  #slow(packet: Uint8Array, epoch: number, now: number, seq = 0): Received {
    const opened = openFrame(packet, now, this.#inboundKey)
    const received = this.#opened(opened, epoch, now, seq)
    if (received.kind === 'error' && opened.header) this.#refused(opened.header, epoch, received.code, now)
    return received
  }

  #opened(opened: Opened, epoch: number, now: number, seq: number): Received {
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
      ? this.memory.scope(sourceAid, ahead ? AHEAD : epoch, now)
      : ahead
        ? this.#ahead(sourceAid, tid, now)
        : this.memory.find(sourceAid, epoch, now)
    if (scope?.unproved) this.memory.prove(scope, seq)
    const history = scope?.templates.get(tid)
    if (history && seq > history.seq) history.seq = seq
    // what has no time follows on what was heard last
    const newest = Math.max(0, history?.newest ?? 0)
    const ts = header.ts === 0 ? newest : this.#reference ? Math.max(newest, time) : time
    meta.timestamp_raw = header.ts === 0 ? (scope ? this.#stamped(scope.source, sourceAid, now) : now) : time
    if (full) {
      const received = this.#full(scope!, ts, opened)
      const learned = meta.template_learned ? scope!.templates.get(tid) : undefined
      if (learned) learned.fullSeq = learned.seq = seq
      return received
    }
    if (!history)
      return this.#refuse('NEED_FULL', `Template ${meta.tid} missing for 0x${base.toString(16).toUpperCase()}`, meta)
    if (history.count === 0) return this.#refuse('NEED_FULL', `No cached values for TID=${meta.tid}`, meta)
    const late = ts < history.newest
    if (late) meta.late = true
    if (late && seq > 0 && seq < history.fullSeq) {
      this.counters.lateDropped++
      return this.#refuse('LATE_DROPPED', `frame ${seq} of TID=${meta.tid} is behind FULL ${history.fullSeq}`, meta)
    }
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
    if (history.unitChanged && epoch === BARE) this.learned(sourceAid)
    return this.#fact(history, sourceAid, meta.timestamp_raw, meta)
  }

  /**
   * A bare DIFF or HEART on a template from before an unclean stop: its sender may never send a FULL again (X33). What the
   * DIFF carries has the states and units of the template, what it does not carry is left out. `opened` is null for
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
    if (history.unitChanged) this.learned(sourceAid)
    const received = this.#fact(history, sourceAid, meta.timestamp_raw!, meta)
    if (received.kind === 'fact' && received.fact.sensors.length > 0) return received
    return this.#refuse('NEED_FULL', `the DIFF carries no value of TID=${meta.tid}`, meta)
  }

  /**
   * A frame of a run that could not be used: with `diff_base: last` what comes next builds on it, and a HEART or a small DIFF
   * would fit what was before. So nothing does until a FULL. A late frame is nothing to build on; outside of the exchange frames
   * may be anybody's.
   */
  #refused({ sourceAid, tid }: FrameHeader, epoch: number, code: ReceiveCode, now: number): void {
    if (epoch !== BARE && code !== 'LATE_DROPPED')
      this.memory.find(sourceAid, epoch, now)?.templates.get(tid)?.invalidate()
  }

  #full(scope: Scope, ts: number, { header, meta, bytes, from, to }: Opened & { ok: true }): Received {
    const { sourceAid: aid, tid } = header
    const body = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8')
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
      if (!firmware || firmware.template === firmware.text) {
        const known = scope.templates.get(tid)
        const history = learn(reported)
        if (history === known && !meta.late && !meta.secure) this.#quick.patterns.note(history, bytes, from, to, aid)
        return this.#fact(history, aid, meta.timestamp_raw!, meta)
      }
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
    const scope = this.memory.find(aid, AHEAD, now)
    if (scope?.templates.has(tid)) return scope
    const history = this.memory.find(aid, BARE, now)?.templates.get(tid)
    if (!history?.known) return scope
    return this.memory.hold(this.memory.scope(aid, AHEAD, now), tid, history.branch())
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
    if (same) this.memory.weigh(scope, tid, history.weight - before)
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
    if (!same) this.memory.hold(scope, tid, history)
    this.#keep(history, ts)
    meta.template_learned = true
    if (scope.epoch === BARE && (!same || history.unitChanged)) this.learned(aid)
    else if (this.files?.hasDirty) this.files.flush(this.memory.toKeep)
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

  #fact(history: SlotHistory, aid: number, tRaw: number, meta: PacketMeta): Received {
    // its states may be behind: the text of no value says enough then
    const needFull = meta.template_rebuilt === true
    const fact = this.#facts.make(history, aid, tRaw, needFull)
    const { reshaped } = history
    return { kind: 'fact', fact, meta, advanced: this.#advanced, reshaped, needFull, key: this.#key }
  }

  #refuse(code: ReceiveCode, message: string, meta: PacketMeta): Received {
    this.counters.errors++
    return { kind: 'error', code, message, meta, needFull: code === 'NEED_FULL' || code === 'LATE_DROPPED' }
  }
}
