// The uplink's encoder (decision 0016): one per (uplink, source AID), never shared.
// - A DIFF contains every slot changed since the newest acknowledged packet of its template, or since the template's
//   first FULL of this run, so a receiver that gets frames in order decodes correctly after any loss.
// - A key frame (FULL) is sent after a number of packets or seconds, on first use and on request; it may be lost, so it
//   does not shorten the next DIFF.
// - A fact that is not newer than the template's last one is sent as FULL under a backlog TID (200–254, X15), which is
//   never a base.
// - With a session key the body of any frame is encrypted in place (docs/protocol.md section 7).
// encode throws BAD_ID, BAD_TIME, BAD_READING or E_PRECISION (details: sensor) and leaves all state unchanged.
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { isGoodName } from '../wire/names'
import { stateToken } from '../wire/symbols'
import type { FrameBatch } from './batch'
import { Engine } from './compress'
import type { Fact } from './fact'
import { LOADED, OTHER, PacketPlan } from './plan'
import { PacketSlab } from './slab'
import { type DiffPolicy, fullOnlyUntil, NOW, readsClock, SendStore, SendTemplate, TS } from './templates'
import { toBase64 } from './text'
import type { UnitDialect, WireUnits } from './wireunit'

export interface UplinkEncoderOptions {
  /** source AID in every frame */
  aid: number
  /** `sticky` for links that may lose frames, `last` for ordered reliable ones */
  diffBase?: 'sticky' | 'last'
  /** `full` sends only FULL (shared subscriptions, decision 0021) */
  frames?: 'auto' | 'full'
  fullEvery?: number
  fullIntervalS?: number
  /** the peer acknowledges packets; may change when the link is reopened, see opened() */
  acknowledged?: boolean
  precision?: number
  dialect?: UnitDialect
  units?: WireUnits
  engine?: Engine
  /** memory for frames, shared by several encoders; default: its own */
  slab?: PacketSlab
  /** the last `nextTid` of the previous run (1 for the first run); continues past 199 */
  firstTid?: number
  clock?: Clock
}

export interface EncodedFrame {
  /** of a staged frame: empty until its batch is taken */
  readonly bytes: Buffer
  readonly tid: number
  /** argument for acknowledged(); 0 for a backlog frame */
  readonly ordinal: number
  readonly cmd: number
  readonly size: number
  /** most bytes of any frame with these sensors and statuses, a FULL included */
  readonly maxSize: number
}

export interface EncodeOptions {
  /** a key frame */
  full?: boolean
  /** older than what was sent already, or retransmitted: FULL under a backlog TID */
  late?: boolean
}

const PLAIN: EncodeOptions = Object.freeze({})
const OWN_TIDS = 199
const BACKLOG_FIRST = 200
const BACKLOG_TIDS = 55
/** TID of a key request: a FULL without sensors that only requests a session key and is no fact */
export const KEY_REQUEST_TID = 255
const MAX_TIME = 2 ** 48
const EMPTY = Buffer.alloc(0)
/** plans of signatures other than the last; each is found by comparing ids */
const MAX_PLANS = 1024
const BACKLOG_POLICY: DiffPolicy = { diffBase: 'last', fullEvery: 0, fullIntervalMs: 0 }

export class UplinkEncoder {
  readonly aid: number
  readonly engine: Engine
  readonly policy: DiffPolicy
  readonly #store: SendStore
  readonly #clock: Clock
  readonly #slab: PacketSlab
  readonly #plans = new Map<string, PacketPlan[]>()
  readonly #fullOnly: boolean
  #timed: boolean
  #planCount = 0
  #last: PacketPlan | null = null
  /** of the last frame of encodeInto() */
  lastTid = 0
  lastOrdinal = 0

  constructor(options: UplinkEncoderOptions) {
    this.aid = options.aid
    this.#clock = options.clock ?? systemClock
    this.#slab = options.slab ?? new PacketSlab()
    this.engine =
      options.engine ??
      new Engine(null, {
        precision: options.precision,
        unitDialect: options.dialect,
        units: options.units,
        clock: this.#clock,
      })
    this.policy = {
      diffBase: options.diffBase ?? 'sticky',
      fullEvery: options.fullEvery ?? 100,
      fullIntervalMs: (options.fullIntervalS ?? 60) * 1000,
      acknowledged: options.acknowledged ?? false,
    }
    this.#store = new SendStore(OWN_TIDS, options.firstTid)
    this.#fullOnly = options.frames === 'full'
    this.#timed = readsClock(this.policy)
  }

  /** The next run's `firstTid`: store it before a frame of a new template is sent. */
  get nextTid(): number {
    return this.#store.nextTid
  }

  /** The next template gets this TID (counted past 199), or a later one. */
  skipTids(to: number): void {
    this.#store.skipTo(to)
  }

  /** Fact → frame; `bytes` is never overwritten while it is reachable. With a key the encrypted variant. */
  encode(fact: Fact, options: EncodeOptions = PLAIN, key: Uint8Array | null = null): EncodedFrame {
    const plan = this.#prepare(fact)
    const at = this.#slab.reserve(plan.maxSize)
    const end = this.#write(plan, this.#slab.chunk, at, fact, options, key)
    const bytes = this.#slab.take(at, end)
    const { maxSize } = plan
    return { bytes, tid: this.lastTid, ordinal: this.lastOrdinal, cmd: bytes[0]!, size: bytes.length, maxSize }
  }

  /**
   * The same as part of a batch, which gives the bytes later; null if the frame may have more than `limit` bytes: then nothing has changed.
   */
  stage(
    fact: Fact,
    limit: number,
    batch: FrameBatch,
    options: EncodeOptions = PLAIN,
    key: Uint8Array | null = null,
  ): EncodedFrame | null {
    const plan = this.#prepare(fact)
    const { maxSize } = plan
    if (maxSize > limit) return null
    const cmd = this.#write(plan, EMPTY, 0, fact, options, key, batch)
    return { bytes: EMPTY, tid: this.lastTid, ordinal: this.lastOrdinal, cmd, size: 0, maxSize }
  }

  /** Fact → frame in memory that the caller owns and releases; returns the end; lastTid and lastOrdinal describe the frame. */
  encodeInto(
    fact: Fact,
    out: Uint8Array,
    at: number,
    options: EncodeOptions = PLAIN,
    key: Uint8Array | null = null,
  ): number {
    const plan = this.#prepare(fact)
    if (out.length - at < plan.maxSize)
      throw new OsError('PACKET_TOO_LARGE', `${plan.maxSize} bytes may be needed, ${out.length - at} are left`)
    return this.#write(plan, out, at, fact, options, key)
  }

  /** A FULL for a retransmitted or late fact; `tid` 200 to 255, default: derived from its template's. */
  encodeFull(fact: Fact, tid?: number, key: Uint8Array | null = null): EncodedFrame {
    if (tid !== undefined && (tid < BACKLOG_FIRST || tid > KEY_REQUEST_TID))
      throw new OsError('BAD_REQUEST', `TID ${tid} is not a backlog TID`)
    const plan = this.#prepare(fact)
    const at = this.#slab.reserve(plan.maxSize)
    const end = this.#backlog(plan, this.#slab.chunk, at, fact.tRaw, tid ?? this.#backlogTid(plan), key)
    const bytes = this.#slab.take(at, end)
    return { bytes, tid: this.lastTid, ordinal: 0, cmd: bytes[0]!, size: bytes.length, maxSize: plan.maxSize }
  }

  #backlogTid(plan: PacketPlan): number {
    return BACKLOG_FIRST + (((plan.template?.tid ?? 1) - 1) % BACKLOG_TIDS)
  }

  /** Writes the frame and returns its end; with a batch, adds it there and returns its command byte. */
  #write(
    plan: PacketPlan,
    out: Uint8Array,
    at: number,
    fact: Fact,
    options: EncodeOptions,
    key: Uint8Array | null,
    batch: FrameBatch | null = null,
  ): number {
    const known = plan.template?.alive ? plan.template : this.#store.find(plan.signature)
    if (known) plan.template = known
    if (options.late) return this.#backlog(plan, out, at, fact.tRaw, this.#backlogTid(plan), key, batch)
    plan.times[TS] = fact.tRaw
    if (this.#timed) plan.times[NOW] = this.#clock.mono()
    const template = known ?? this.#store.add(plan.signature, plan.count, this.policy, plan.times[NOW]!)
    plan.template = template
    if (fact.tRaw <= template.lastTs) return this.#backlog(plan, out, at, fact.tRaw, this.#backlogTid(plan), key, batch)
    this.#store.touch(template)
    const full = this.#fullOnly || options.full === true
    const end = batch ? batch.add(plan, full, this.policy, key) : plan.writeFrame(out, at, full, this.policy, key)
    this.lastTid = template.tid
    this.lastOrdinal = template.ordinal
    return end
  }

  /** Written with a separate template, so that the live one does not change. */
  #backlog(
    plan: PacketPlan,
    out: Uint8Array,
    at: number,
    ts: number,
    tid: number,
    key: Uint8Array | null,
    batch: FrameBatch | null = null,
  ): number {
    const live = plan.template
    plan.template = new SendTemplate(plan.signature, tid, plan.count)
    plan.times[TS] = ts
    const end = batch ? batch.add(plan, true, BACKLOG_POLICY, key) : plan.writeFrame(out, at, true, BACKLOG_POLICY, key)
    plan.template = live
    this.lastTid = tid
    this.lastOrdinal = 0
    return end
  }

  /** The peer has stored this packet. Backlog frames, old runs and recycled TIDs are ignored. */
  acknowledged(tid: number, ordinal: number): void {
    const template = this.#store.byTid(tid)
    if (!template || ordinal <= template.acked || ordinal > template.ordinal) return
    template.acked = ordinal
    template.fullOnlyUntil = 0
  }

  /**
   * The link was reopened: key frames first. If the peer no longer answers, its earlier acknowledgements are void too:
   * it keeps bare frames separate from those of the delivery exchange, and may have older contents for these TIDs.
   */
  opened(acknowledged: boolean, diffBase = this.policy.diffBase): void {
    const before = this.policy.acknowledged
    this.policy.acknowledged = acknowledged
    this.policy.diffBase = diffBase
    this.#timed = readsClock(this.policy)
    if (before && !acknowledged)
      for (const template of this.#store.all()) {
        template.acked = 0
        template.fullOnlyUntil = Number.POSITIVE_INFINITY
      }
    this.keyFrameNext()
  }

  /** Minimum distance of key frames that are due by count or time, where they are expensive. */
  keyFramesApart(ms: number): void {
    this.policy.fullGapMs = ms
    this.#timed = readsClock(this.policy)
  }

  /** The next packet of this template, or of every template, is a key frame: after NACK NEED_FULL, after a reconnect. */
  keyFrameNext(tid?: number): void {
    if (tid === undefined)
      for (const template of this.#store.all()) {
        template.forceFull = true
        // no FULL of a TID that meant something else before was acknowledged: the waiting time starts again
        if (template.fullOnlyUntil > 0) template.fullOnlyUntil = fullOnlyUntil(this.policy, this.#clock.mono())
      }
    else {
      const template = this.#store.byTid(tid)
      if (template) template.forceFull = true
    }
  }

  #prepare(fact: Fact): PacketPlan {
    if (!(fact.tRaw >= 0 && fact.tRaw < MAX_TIME)) throw new OsError('BAD_TIME', `time ${fact.tRaw} ms cannot be sent`)
    const last = this.#last
    if (last && fits(last, fact) && this.#load(last, fact)) return last
    const plan = this.#find(fact)
    this.#last = plan
    return plan
  }

  /** True when loaded, false for other sensors; throws when one is refused. */
  #load(plan: PacketPlan, fact: Fact): boolean {
    const loaded = plan.loadFact(fact.sensors)
    if (loaded === LOADED) return true
    if (loaded === OTHER) return false
    const { id, value, unit, status } = fact.sensors[plan.refusedRow]!
    const precise = typeof value === 'number' && Number.isFinite(value)
    throw new OsError(
      precise ? 'E_PRECISION' : 'BAD_READING',
      `sensor ${id}: ${String(value)} ${unit} (${status}) cannot be sent with ${this.engine.precision} decimals`,
      { details: { sensor: id, value, unit } },
    )
  }

  #find(fact: Fact): PacketPlan {
    for (const plan of this.#plans.get(fact.id) ?? []) if (fits(plan, fact) && this.#load(plan, fact)) return plan
    for (const name of [fact.id, fact.state, ...fact.sensors.map(s => s.id)])
      if (!isGoodName(name)) throw new OsError('BAD_ID', `${JSON.stringify(name)} cannot be sent`)
    const ids = fact.sensors.map(sensor => sensor.id)
    const plan = new PacketPlan(this.engine, null, this.aid, fact.id, fact.state, ids, extrasText(fact.extras))
    this.#load(plan, fact)
    if (this.#planCount++ >= MAX_PLANS) {
      this.#plans.clear()
      this.#planCount = 1
    }
    const list = this.#plans.get(fact.id)
    if (list) list.push(plan)
    else this.#plans.set(fact.id, [plan])
    return plan
  }
}

const fits = (plan: PacketPlan, fact: Fact): boolean =>
  plan.device === fact.id &&
  plan.state === fact.state &&
  plan.count === fact.sensors.length &&
  (fact.extras === undefined ? plan.extras === '' : plan.extras === extrasText(fact.extras))

/** geohash, url and message in the form after the sensors */
function extrasText(extras: Fact['extras']): string {
  if (!extras) return ''
  let text = ''
  if (extras.geohash !== undefined) text += `&${extras.geohash}|`
  if (extras.url !== undefined) text += `#${toBase64(extras.url.replaceAll('https://', ''))}|`
  if (extras.msg !== undefined) text += `@${toBase64(extras.msg)}`
  return text
}

/** Upper bound of the bytes of any frame with these sensors and statuses, whatever the values (for splitting groups). */
export function maxFullSize(
  engine: Engine,
  aid: number,
  fact: Pick<Fact, 'id' | 'state' | 'sensors' | 'extras'>,
): number {
  const bytes = (text: string): number => Buffer.byteLength(text, 'utf8')
  let size = 16 + bytes(`${aid};${fact.id}.${stateToken(fact.state)}.`) + 9 + bytes(extrasText(fact.extras))
  for (const sensor of fact.sensors) {
    const token = Math.max(
      ...engine.pickers.get(sensor.unit).tokens.map(bytes),
      bytes(engine.encodeUnitToken(sensor.unit)),
    )
    size += bytes(sensor.id) + Math.max(1, bytes(stateToken(sensor.status))) + token + 1 + 3 + 12
  }
  return size
}
