// The encoders of one uplink, one per source AID (decision 0016), the TIDs each may use, and the recently sent frames, so that only a
// NACK for one of them is accepted (X7, X9). A frame is encrypted with the current session key of its AID. encode() throws
// the errors of the encoder; then nothing has changed.
import type { GatewayCores } from '../../cores'
import type { Clock } from '../../lib/clock'
import { OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { LruMap } from '../../lib/lru-map'
import type { Airtime } from '../../links/contracts'
import type { FlashLog } from '../../log'
import { Engine } from '../../pipeline/compress'
import type { Fact } from '../../pipeline/fact'
import { type EncodedFrame, type EncodeOptions, KEY_REQUEST_TID, UplinkEncoder } from '../../pipeline/sender'
import { PacketSlab } from '../../pipeline/slab'
import type { UnitDialect, WireUnits } from '../../pipeline/wireunit'
import type { SentFrames } from '../../protocol/handshake/refusals'
import type { RefusedFrame } from '../../protocol/nack'
import type { SecureClient } from '../../protocol/secure/client'
import { baseCommand, COMMAND, isSecure } from '../../wire/commands'
import { FrameStage, type StageParts } from './frame-stage'
import { KeyFramePlan } from './keyframes'
import { TidCounters } from './tids'

export interface PackSettings {
  name: string
  /** for links before they are opened; see opened() */
  diffBase: 'sticky' | 'last'
  frames: 'auto' | 'full'
  fullEvery: number
  fullIntervalS: number
  precision: number
  /** default: `ucum` */
  dialect?: UnitDialect
}

interface EncodersParts {
  log: FlashLog
  clock: Clock
  logger: Logger
  units: WireUnits
  client: SecureClient
  recent: SentFrames
  /** packing is possible again */
  changed: () => void
  /** of media with limited airtime: determines the rate of key frames */
  airtime?: Airtime | undefined
  /** default: the pure core makes all frames */
  cores?: GatewayCores | undefined
}

/** maximum of AIDs with templates; each takes about 10 KiB */
const MAX_ENCODERS = 1024
/** evicted AIDs whose TIDs are remembered: 16 bytes each */
const MAX_GONE = 65_536

const AUTO: EncodeOptions = Object.freeze({})
const FULL: EncodeOptions = Object.freeze({ full: true })
const LATE: EncodeOptions = Object.freeze({ late: true })

export class Encoders {
  readonly #settings: PackSettings
  readonly #clock: Clock
  readonly #encoders = new Map<number, UplinkEncoder>()
  readonly #recent: SentFrames
  readonly #tids: TidCounters
  readonly #client: SecureClient
  /** when an AID got its key */
  readonly #keyedAt = new Map<number, number>()
  /** the next TID of an AID whose encoder was evicted */
  readonly #gone = new LruMap<number, number>(MAX_GONE)
  #latest = -1
  readonly #engine: Engine
  readonly #slab = new PacketSlab()
  readonly #plan: KeyFramePlan | null
  /** newest record before the start; 0 after a clean stop */
  readonly #earlier: number
  /** null: each frame is made at once */
  readonly #stage: FrameStage | null
  #answers = false
  #diffBase: PackSettings['diffBase']

  constructor(settings: PackSettings, parts: EncodersParts) {
    const { log, clock, logger, units, client, recent, changed, airtime, cores } = parts
    this.#settings = settings
    this.#recent = recent
    this.#diffBase = settings.diffBase
    const { precision, dialect } = settings
    this.#engine = new Engine(null, { precision, unitDialect: dialect, units, clock })
    this.#clock = clock
    this.#client = client
    this.#plan = airtime ? new KeyFramePlan(airtime) : null
    // not with limited airtime: there the size of a key frame decides when the next one is due
    const made: StageParts['made'] = (fact, packet, at, seq) => this.#note(fact, packet, at, seq)
    this.#stage = cores && !airtime ? new FrameStage({ cores, slab: this.#slab, clock, made }) : null
    this.#tids = new TidCounters(settings.name, log, logger, changed)
    this.#earlier = log.cleanStop ? 0 : log.lastSeq
  }

  /** False while the TID counter of that AID is being written to flash; `changed` follows. */
  ready(aid: number): boolean {
    return this.#tids.ready(this.#encoder(aid))
  }

  /** The link was opened: the next packet of every template is a key frame. `answers`: the upstream acknowledges packets. */
  opened(answers: boolean, diffBase = this.#settings.diffBase): void {
    this.#answers = answers
    this.#diffBase = diffBase
    for (const encoder of this.#encoders.values()) encoder.opened(answers, diffBase)
  }

  /** The next frames may be staged, and are made together in finish(). */
  begin(waiting: () => number): void {
    this.#stage?.begin(waiting)
  }

  /** Completes the staged frames. */
  finish(): void {
    this.#stage?.finish()
  }

  /**
   * One frame of record `seq`, staged or of at most `limit` bytes; `full` for a relayed fact. Also throws PACKET_TOO_LARGE.
   * After a power cut the stored TID counters may be old, and the upstream may have a newer template under a TID of this run.
   * On media without acknowledgements a TID therefore starts with a timestamp of this run.
   */
  encode(fact: Fact, full: boolean, limit: number, seq: number): EncodedFrame {
    const encoder = this.#encoder(fact.aid)
    if (this.#plan) encoder.keyFramesApart(this.#plan.gapMs)
    const options = full ? FULL : seq <= this.#earlier && !this.#answers ? LATE : AUTO
    const key = this.#client.outboundKey(fact.aid)
    const staged = this.#stage?.add(encoder, fact, limit, seq, options, key)
    if (staged) return staged
    const packet = encoder.encode(fact, options, key)
    if (baseCommand(packet.cmd) === COMMAND.DATA_FULL) this.#plan?.note(fact.aid, packet.tid, packet.size)
    if (packet.size <= limit) return packet
    // counted as sent, but never sent: the next packet must not build on it
    encoder.keyFrameNext(packet.tid)
    throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes, the link carries ${limit}`)
  }

  /** Encodes the same fact again: a FULL with its own time on a backlog TID, which changes no state (decision 0016). */
  encodeAgain(fact: Fact): EncodedFrame {
    return this.#encoder(fact.aid).encodeFull(fact, undefined, this.#client.outboundKey(fact.aid))
  }

  /** Size of the fact as FULL. */
  sizeOf(fact: Fact): number {
    // measured only: must not evict an encoder in use
    return (this.#encoders.get(fact.aid) ?? this.#make(fact.aid)).encodeFull(fact).size
  }

  /** Whether that AID's data may be packed now: it has a key, or needs none. */
  allowed(aid: number): boolean {
    return this.#client.mayPlain(aid) || this.#client.outboundKey(aid) !== null
  }

  /** A FULL of that fact's device without its sensors, in plaintext, which requests a key (X7). */
  keyRequest({ id, state, aid }: Fact, tRaw: number): Uint8Array {
    return this.#encoder(aid).encodeFull({ id, state, aid, tRaw, sensors: [] }, KEY_REQUEST_TID).bytes
  }

  /** The frame is being sent; `seq`: its log record, which is sent again if the frame is refused. */
  sent(fact: Fact, packet: EncodedFrame, seq: number): void {
    if (!isSecure(packet.cmd)) this.#client.plaintextSent(fact.aid, fact.tRaw)
    // a staged one is noted when its bytes are known
    if (packet.size > 0) this.#note(fact, packet, this.#clock.mono(), seq)
  }

  #note({ aid, tRaw: ts }: Fact, { tid, bytes }: EncodedFrame, at: number, seq: number): void {
    const crc16 = bytes.readUInt16BE(bytes.length - 2)
    this.#recent.note({ aid, tid, ts, crc16 }, at, seq)
  }

  acknowledged(aid: number, { tid, ordinal }: EncodedFrame): void {
    this.#encoders.get(aid)?.acknowledged(tid, ordinal)
  }

  /**
   * A packet is sent again: lost, or refused with its template. Either way later packets may find no template, and a
   * NEED_FULL answer counts only once in 10 s: the next packet of that template is a key frame.
   */
  unanswered(aid: number, { tid, ordinal }: EncodedFrame): void {
    if (ordinal > 0) this.#encoders.get(aid)?.keyFrameNext(tid)
  }

  /** A receiver lacks a template. It has probably lost all of them, and its next NACK counts only in 10 s. */
  needFull(refused: RefusedFrame): void {
    if (this.#recent.obey(refused, this.#clock.mono())) this.#encoders.get(refused.aid)?.keyFrameNext()
  }

  /** The next packet of every template, of one AID or all, is a key frame. */
  keyFrames(aid?: number): void {
    if (aid !== undefined) this.#encoders.get(aid)?.keyFrameNext()
    else for (const encoder of this.#encoders.values()) encoder.keyFrameNext()
  }

  /** That AID has a key from now on. */
  keyed(aid: number): void {
    this.finish()
    this.#keyedAt.set(aid, this.#clock.mono())
    this.keyFrames(aid)
  }

  /** Whether a NACK may concern the current key: the frame was sent in the last minute, and with it. */
  wasSent(refused: RefusedFrame): boolean {
    return this.#recent.sent(refused, this.#clock.mono(), this.#keyedAt.get(refused.aid))
  }

  /** AIDs that send over this uplink. */
  aids(): Iterable<number> {
    return this.#encoders.keys()
  }

  /** A clean stop: the next run continues right after the used TIDs. */
  keep(): void {
    this.#tids.keep(this.#encoders.values())
  }

  /**
   * There are many relayed AIDs: evicts the least recently used encoder. Its AID restarts with FULL under TIDs it has not
   * used, so that later packets cannot be mistaken for earlier ones. No LruMap: it would evict only after `#make` has read
   * `#gone`, and move an entry for each packet.
   */
  #makeRoom(): void {
    if (this.#encoders.size < MAX_ENCODERS) return
    for (const [aid, { nextTid }] of this.#encoders) {
      if (this.#tids.keeps(aid)) continue
      this.#encoders.delete(aid)
      this.#keyedAt.delete(aid)
      this.#gone.set(aid, nextTid)
      return
    }
  }

  #encoder(aid: number): UplinkEncoder {
    let encoder = this.#encoders.get(aid)
    if (encoder !== undefined && aid !== this.#latest) {
      // moved to the end: the least recently used is first
      this.#encoders.delete(aid)
      this.#encoders.set(aid, encoder)
    }
    this.#latest = aid
    if (!encoder) {
      this.#makeRoom()
      encoder = this.#make(aid)
      this.#encoders.set(aid, encoder)
    }
    return encoder
  }

  #make(aid: number): UplinkEncoder {
    const { frames, fullEvery, fullIntervalS } = this.#settings
    return new UplinkEncoder({
      frames,
      diffBase: this.#diffBase,
      fullEvery,
      fullIntervalS,
      engine: this.#engine,
      slab: this.#slab,
      acknowledged: this.#answers,
      aid,
      clock: this.#clock,
      firstTid: Math.max(this.#tids.first(aid), this.#gone.get(aid) ?? 1),
    })
  }
}
