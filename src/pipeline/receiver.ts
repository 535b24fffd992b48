// The gateway's receiver (decision 0016): frame → fact record in canonical units. Frames may arrive late, twice or not at all:
// - A late FULL is decoded from its own text and not learned.
// - A late DIFF or HEART is decoded on the newest kept state that is not newer than the frame.
// - A frame with the same time as the newest one is not late and builds on it (whole seconds).
// - A frame without a time (TS 0) comes after everything received before; it gets a time here, later than the last
//   (X11).
// - Without such a state or template the frame is refused with needFull, never guessed.
// - A broken frame is an error with a code; nothing throws and the state does not change.
// sources.ts stores and bounds the state.
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import { type FrameHeader, readU32 } from '../wire/frame'
import { Engine } from './compress'
import { FactMaker } from './fact-maker'
import { FastDecoder } from './fast-decode'
import { isFirmware, readFirmware } from './firmware'
import { isBelow, isStale, STEP_BACK_FRAMES, STEP_BACK_MS } from './min-timestamps'
import {
  frameTime,
  type InboundKeys,
  isDiff,
  isFull,
  isHeart,
  type OpenedFrame,
  openFrame,
  type PacketMeta,
  plainFrame,
  plainMeta,
} from './receive'
import type { FactSink, FrameChecks, PartOptions, ReceiveCode, Received, ReceiverOptions } from './received'
import { ReceiverMemory } from './receiver-memory'
import { type MetaInfo, type MetaOf, SlotMetaCache } from './slot-meta-cache'
import { EXACT, type FullText, LAX, readFull, SlotHistory, shapeOf, WARY } from './slots'
import { AHEAD, type AidState, BARE, type Scope } from './sources'
import { isPlainText, stripAid, tokenMs } from './text'

export type { Received, ReceiverOptions }

export class Receiver extends ReceiverMemory {
  readonly #reference: boolean
  readonly #metas: SlotMetaCache
  readonly #clock: Clock
  readonly #inboundKey: InboundKeys | null
  readonly #stamp: ((aid: number) => number) | null
  readonly #latest: () => number
  readonly #checks: FrameChecks | null
  readonly #fast: FastDecoder
  readonly #facts: FactMaker
  /** of the frame being decoded */
  #key: Uint8Array | null = null
  #advanced = false
  /** of a frame being replayed: whether it was too far in the future when it arrived */
  #future: boolean | null = null
  readonly #metaText: MetaOf = (text, plain) => this.#metas.of(text, plain)
  readonly #metaBytes = (bytes: Uint8Array, from: number, to: number, plain: boolean): MetaInfo =>
    this.#metas.of(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8'), plain)

  constructor(options: PartOptions = {}) {
    const clock = options.clock ?? systemClock
    const engine =
      options.engine ??
      new Engine(null, { precision: options.precision, unitDialect: options.dialect, units: options.units })
    const metas = new SlotMetaCache(engine.unitDialect, engine.units)
    super(options, clock, (text, plain) => metas.of(text, plain))
    this.#clock = clock
    this.#metas = metas
    this.#inboundKey = options.inboundKey ?? null
    this.#stamp = options.stamp ?? null
    this.#latest = options.latest ?? (() => Number.POSITIVE_INFINITY)
    this.#reference = options.reference ?? false
    this.#checks = options.checks ?? null
    this.#fast = new FastDecoder(this.memory, this.#latest, this.#metaBytes)
    this.#facts = new FactMaker(engine.precision, this.counters)
  }

  /**
   * Decodes one frame. `packet` is read only during the call. `epoch` is the peer's run if the frame came in the
   * delivery exchange: each run has its own templates. `seq` is the frame's number in that run: a frame from an old
   * connection that arrives after a newer FULL is not decoded on that FULL (LATE_DROPPED).
   * `plain`: the result of plainFrame, if it is known.
   */
  receive(packet: Uint8Array, epoch = BARE, seq = 0, plain = plainFrame(packet, 0, packet.length)): Received {
    const now = this.#clock.wall()
    const history = plain ? this.#read(packet, 0, packet.length, epoch, now) : null
    if (history === null) return this.#slow(packet, epoch, now, seq)
    if (seq > history.seq) history.seq = seq
    if (seq > 0 && isFull(packet[0]!)) history.fullSeq = seq
    const fact = this.#facts.make(history, readU32(packet, 2), history.newest)
    const meta = plainMeta(packet, fact)
    const { advanced } = this.#fast
    return { kind: 'fact', fact, meta, advanced, reshaped: history.reshaped, needFull: false, key: null }
  }

  /**
   * Decodes consecutive frames in `bytes`, each up to its end. `sink` gets the results in order; `checks` computes the
   * checksums together.
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
        sink.fact(k, fact, this.#fast.advanced, history.reshaped)
      }
      from = to
    }
  }

  #read(bytes: Uint8Array, from: number, to: number, epoch: number, now: number): SlotHistory | null {
    if (this.#reference || this.#future !== null) return null
    const history = this.#fast.read(bytes, from, to, epoch, now)
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

  #opened(opened: OpenedFrame, epoch: number, now: number, seq: number): Received {
    const { meta } = opened
    if (!opened.ok) return this.#refuse(opened.code, opened.error, meta)
    const { header } = opened
    this.#key = opened.to > opened.from ? opened.key : null
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
    // a frame without a time follows the last one received
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
    if (!heart && opened.candidates && !this.#choose(history, opened))
      return this.#refuse('NEED_FULL', 'More than one key fits', meta)
    const late = ts < history.newest
    if (late) meta.late = true
    if (late && seq > 0 && seq < history.fullSeq) {
      this.counters.lateDropped++
      return this.#refuse('LATE_DROPPED', `frame ${seq} of TID=${meta.tid} is behind FULL ${history.fullSeq}`, meta)
    }
    if (history.rebuilt && !late && !isBelow(scope!.source.minTimestamps, history.shape.hash, ts))
      return this.#rebuilt(history, header, heart ? null : opened, ts, meta)
    // the earlier states of a rebuilt template are unknown
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
    if (!heart && !history.apply(opened.bytes, opened.from, opened.to, this.#metaBytes, reading)) {
      // the reference keeps what it read
      if (reading === LAX) this.#keep(history, ts)
      // its CRC is valid, so the template differs from the sender's: a FULL repairs that
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
   * Takes the candidate that alone reads as a DIFF of its template; false if several do, since a wrong key could give
   * wrong values (R10). If none does, the DIFF is refused as any other that does not fit.
   */
  #choose(history: SlotHistory, opened: OpenedFrame & { ok: true }): boolean {
    const reads = opened.candidates!.filter(({ bytes }) => {
      history.begin(-1, true)
      return history.apply(bytes, 0, bytes.length, this.#metaBytes, WARY)
    })
    const [only] = reads
    if (only && reads.length === 1) {
      Object.assign(opened, { bytes: only.bytes, to: only.bytes.length, key: only.key })
      this.#key = only.key
    }
    return reads.length <= 1
  }

  /**
   * A bare DIFF or HEART on a template from before an unclean stop: its sender may never send a FULL again (X33). The
   * DIFF's own values get the template's states and units; other values are missing. `opened` is null for a HEART,
   * which only shows that the device is alive.
   */
  #rebuilt(
    history: SlotHistory,
    { sourceAid }: FrameHeader,
    opened: (OpenedFrame & { ok: true }) | null,
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
   * A frame of a run could not be used: with `diff_base: last` the next frame builds on it, and a HEART or a small DIFF
   * would wrongly match the previous state. So nothing matches until a FULL. A late frame is no base, and outside of
   * the exchange frames may be from anyone.
   */
  #refused({ sourceAid, tid }: FrameHeader, epoch: number, code: ReceiveCode, now: number): void {
    if (epoch !== BARE && code !== 'LATE_DROPPED')
      this.memory.find(sourceAid, epoch, now)?.templates.get(tid)?.invalidate()
  }

  #full(scope: Scope, ts: number, { header, meta, bytes, from, to }: OpenedFrame & { ok: true }): Received {
    const { sourceAid: aid, tid } = header
    const body = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8')
    // a wrong key matches the checksum once in 256 frames and gives noise: a peer's text begins with its AID, the
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
      // the frame's own TS is the time; the token only has to be valid
      if (!/^[\w-]{8}$/.test(reported.token)) tokenMs(reported.token)
      const learn = (read: FullText): SlotHistory => this.#learn(scope, aid, tid, ts, read, meta)
      if (!firmware || firmware.template === firmware.text) {
        const known = scope.templates.get(tid)
        const history = learn(reported)
        if (history === known && !meta.late && !meta.secure) this.#fast.patterns.note(history, bytes, from, to, aid)
        return this.#fact(history, aid, meta.timestamp_raw!, meta)
      }
      // the firmware's next DIFF builds on less than this FULL contains
      if (firmware.template !== null) learn(readFull(firmware.template, plain))
      const history = new SlotHistory(shapeOf(reported))
      history.begin(-1, true)
      history.fill(reported.sensors, this.#metaText)
      return this.#fact(history, aid, meta.timestamp_raw!, meta)
    } catch (thrown) {
      return this.#refuse(foreign ? 'BAD_KEY' : 'BAD_PACKET', asOsError(thrown).message, meta)
    }
  }

  /** The templates of bare frames with a future time; they start as copies of the others. */
  #ahead(aid: number, tid: number, now: number): Scope | undefined {
    const scope = this.memory.find(aid, AHEAD, now)
    if (scope?.templates.has(tid)) return scope
    const history = this.memory.find(aid, BARE, now)?.templates.get(tid)
    if (!history?.known) return scope
    return this.memory.hold(this.memory.scope(aid, AHEAD, now), tid, history.branch())
  }

  /**
   * Learns a FULL's text as the state of its template, unless it is late; returns the history to read it from. Throws
   * BAD_TEXT.
   */
  #learn(scope: Scope, aid: number, tid: number, ts: number, read: FullText, meta: PacketMeta): SlotHistory {
    const known = scope.templates.get(tid)
    const same = known?.shape.signature === read.signature
    const history = known && same ? known : new SlotHistory(shapeOf(read))
    const late = known ? this.#late(known, ts) : ts > 0 && isStale(scope, history.shape.hash, ts)
    const before = history.weight
    // and a late DIFF must not build on an incomplete state
    if (history.rebuilt && !late) history.invalidate()
    history.begin(-1, late)
    history.fill(read.sensors, this.#metaText)
    if (same) this.memory.weigh(scope, tid, history.weight - before)
    if (late) {
      if (known) {
        known.lateRun++
        // two meanings of one TID whose times do not show which is newer: neither may be a base
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

  /** Older than the template's state; unless so many frames are late that the sender's clock must have been set back. */
  #late(history: SlotHistory, ts: number): boolean {
    if (ts >= history.newest) return false
    if (history.lateRun < STEP_BACK_FRAMES || history.newest - ts <= STEP_BACK_MS) return true
    history.clear()
    return false
  }

  /** A unique time for a frame without one. */
  #stamped(source: AidState, aid: number, now: number): number {
    source.stamp = Math.max(source.stamp + 1, Math.floor(this.#stamp ? this.#stamp(aid) : now))
    return source.stamp
  }

  /**
   * After an unclean stop: replays a bare packet of the log, in log order, to restore its template. `future`: it was
   * too far in the future when it arrived (X36), whatever the clock is now. If a packet is unreadable (its key is
   * lost), the AID's templates are dropped. Nothing is counted.
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
    // its states may be out of date: then the text of no value has enough information
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
