// Templates of the sending side: the last content sent to the peer, slot by slot, and what the next DIFF must repeat
// (decision 0016). A sensor has two slots, its `state.unit` and its value; the value is stored as the fixed-point number, so that
// comparisons are numeric. Every slot has the ordinal of the packet that last changed it: a DIFF contains the slots
// changed after the base, which is the previous packet in `last`, the newest acknowledged one (or the first FULL) in
// `sticky`. TIDs are assigned in turn; if none is free, the least recently used template is replaced (X12).
import { decodeInteger, encodeInteger, NO_VALUE, NO_VALUE_TEXT, parseBase62 } from '../wire/base62'

export interface DiffPolicy {
  diffBase: 'last' | 'sticky'
  /** a key frame after this many packets; 0 = never */
  fullEvery: number
  /** a key frame after this many milliseconds; 0 = never */
  fullIntervalMs: number
  /** minimum distance in milliseconds of key frames that are due by count or time; left out: 0 */
  fullGapMs?: number
  /** the peer acknowledges packets */
  acknowledged?: boolean
}

/**
 * Until when (mono ms) a TID with an earlier meaning sends only FULL: with acknowledgements until one arrives,
 * otherwise for the time of a key frame, in which at least one FULL is assumed to arrive.
 */
export const fullOnlyUntil = ({ acknowledged, fullIntervalMs }: DiffPolicy, nowMs: number): number =>
  acknowledged ? Number.POSITIVE_INFINITY : nowMs + fullIntervalMs

/** Times for making a packet, in an array so that no number is allocated on the heap: `times[TS]`, `times[NOW]`. */
export const TS = 0
/** mono milliseconds; set only if readsClock() is true */
export const NOW = 1

/** True if a policy depends on time; others need no clock call (50 ns). */
export const readsClock = (policy: DiffPolicy): boolean =>
  policy.diffBase === 'sticky' || policy.fullIntervalMs > 0 || (policy.fullGapMs ?? 0) > 0

/** The reference's bytes: each DIFF against the previous packet, no key frames. */
export const REFERENCE_POLICY: DiffPolicy = { diffBase: 'last', fullEvery: 0, fullIntervalMs: 0 }

/** no link delays a packet for longer */
const UNDER_WAY_MS = 10_000
const MOST_FULLS = 8

export class SendTemplate {
  /** false once its TID belongs to another signature */
  alive = true
  /** the slots are those that the peer received; false until the first FULL */
  known = false
  readonly metas: string[]
  /** values as fixed point; NaN if the text is not the one we would write; then `odd` has it */
  readonly numbers: Float64Array
  odd: string[] | null = null
  readonly metaOrdinals: Float64Array
  readonly valueOrdinals: Float64Array
  /** number of the last packet of this template; continues from the previous template with the TID */
  ordinal = 0
  /** newest acknowledged packet; the starting number = none */
  acked = 0
  sinceFull = 0
  /** mono milliseconds of the last FULL */
  fullAt = 0
  /** the next packet is a key frame */
  forceFull = false
  /** only FULL until this mono time: the TID had another meaning before */
  fullOnlyUntil = 0
  /** TS of the newest packet */
  lastTs = -1
  used = 0
  /** FULLs that may still be in transit, oldest first */
  readonly #fulls: { readonly ordinal: number; at: number }[] = []

  constructor(
    readonly signature: string,
    readonly tid: number,
    readonly count: number,
  ) {
    this.metas = new Array<string>(count).fill('')
    this.numbers = new Float64Array(count)
    this.metaOrdinals = new Float64Array(count)
    this.valueOrdinals = new Float64Array(count)
  }

  valueText(i: number): string {
    const n = this.numbers[i]!
    return Number.isNaN(n) ? (this.odd?.[i] ?? '') : encodeInteger(n)
  }

  /** Sets a value as text; true if it differs from the previous one. */
  setValueText(i: number, text: string): boolean {
    const n = canonicalNumber(text)
    const before = this.numbers[i]!
    if (Number.isNaN(n)) {
      const same = Number.isNaN(before) && this.odd?.[i] === text
      this.odd ??= new Array<string>(this.count).fill('')
      this.odd[i] = text
      this.numbers[i] = n
      return !same
    }
    this.numbers[i] = n
    return n !== before
  }

  /** slots in the registry's form: meta, value, meta, value … */
  slotTexts(): string[] {
    const slots: string[] = []
    for (let i = 0; i < this.count; i++) slots.push(this.metas[i]!, this.valueText(i))
    return slots
  }

  /** True when the next packet must be FULL whatever changed. */
  fullDue(policy: DiffPolicy, times: Float64Array): boolean {
    return (
      !this.known ||
      this.forceFull ||
      this.count === 0 ||
      this.#keyFrameDue(policy, times[NOW]!) ||
      times[NOW]! < this.fullOnlyUntil
    )
  }

  #keyFrameDue({ fullEvery, fullIntervalMs, fullGapMs }: DiffPolicy, now: number): boolean {
    const due =
      (fullEvery > 0 && this.sinceFull >= fullEvery) || (fullIntervalMs > 0 && now - this.fullAt >= fullIntervalMs)
    return due && (fullGapMs === undefined || now - this.fullAt >= fullGapMs)
  }

  /**
   * Slots with a larger ordinal are in the next DIFF. A FULL that may still be in transit is the base even if a newer
   * packet is acknowledged: a receiver that lost its templates in between would build on that FULL.
   */
  base(policy: DiffPolicy, times: Float64Array): number {
    if (policy.diffBase !== 'sticky') return this.ordinal
    const fulls = this.#fulls
    while (fulls.length > 0 && fulls[0]!.at <= times[NOW]! - UNDER_WAY_MS) fulls.shift()
    return fulls.length > 0 && fulls[0]!.ordinal < this.acked ? fulls[0]!.ordinal : this.acked
  }

  /** Sets the values of every slot from a FULL. */
  book(metaText: readonly string[], numbers: Float64Array, ordinal: number): void {
    for (let i = 0; i < this.count; i++) {
      if (metaText[i] !== this.metas[i]) {
        this.metas[i] = metaText[i]!
        this.metaOrdinals[i] = ordinal
      }
      if (numbers[i] !== this.numbers[i]) {
        this.numbers[i] = numbers[i]!
        this.valueOrdinals[i] = ordinal
      }
    }
  }

  /** Records a packet that was built completely. */
  sent(full: boolean, times: Float64Array): void {
    this.ordinal++
    if (times[TS]! > this.lastTs) this.lastTs = times[TS]!
    if (!full) {
      this.sinceFull++
      return
    }
    if (!this.known) {
      this.known = true
      this.metaOrdinals.fill(0)
      this.valueOrdinals.fill(0)
    }
    this.forceFull = false
    this.sinceFull = 1
    const nowMs = times[NOW]!
    this.fullAt = nowMs
    const newest = this.#fulls.at(-1)
    if (newest && this.#fulls.length >= MOST_FULLS) newest.at = nowMs
    else this.#fulls.push({ ordinal: this.ordinal, at: nowMs })
  }
}

/** The fixed-point number of a value text that our encoder would write the same way, else NaN. */
function canonicalNumber(text: string): number {
  if (text === NO_VALUE_TEXT) return NO_VALUE
  const short = parseBase62(text)
  if (!Number.isNaN(short)) return encodeInteger(short) === text ? short : Number.NaN
  if (!/^-?[0-9a-zA-Z]{1,11}$/.test(text)) return Number.NaN
  const big = decodeInteger(text)
  const n = Number(big)
  return BigInt(n) === big && encodeInteger(n) === text ? n : Number.NaN
}

/** All templates of one AID on one uplink. */
export class SendStore {
  readonly #bySignature = new Map<string, SendTemplate>()
  readonly #byTid = new Map<number, SendTemplate>()
  #tick = 0
  #floor = 0
  #next: number

  /** TIDs are 1 to `maxTid`; `counter` is the first to use, and continues past the end (so that a wrap is visible). */
  constructor(
    readonly maxTid = 255,
    counter = 1,
  ) {
    this.#next = Math.max(1, counter)
  }

  /** the counter with which a later run must start */
  get nextTid(): number {
    return this.#next
  }

  /** Continues at this counter or later. */
  skipTo(counter: number): void {
    this.#next = Math.max(this.#next, counter)
  }

  find(signature: string): SendTemplate | undefined {
    const template = this.#bySignature.get(signature)
    if (template) template.used = ++this.#tick
    return template
  }

  byTid(tid: number): SendTemplate | undefined {
    return this.#byTid.get(tid)
  }

  touch(template: SendTemplate): void {
    template.used = ++this.#tick
  }

  /** A template for a new signature. A TID with an earlier meaning sends only FULL for a while. */
  add(signature: string, count: number, policy: DiffPolicy, nowMs: number): SendTemplate {
    let recycled = this.#next > this.maxTid
    let tid = 0
    let lastTs = -1
    for (let k = 0; k < this.maxTid && tid === 0; k++) {
      const candidate = ((this.#next - 1 + k) % this.maxTid) + 1
      if (this.#byTid.has(candidate)) continue
      tid = candidate
      this.#next += k + 1
    }
    if (tid === 0) {
      recycled = true
      let oldest: SendTemplate | undefined
      for (const template of this.#byTid.values()) if (!oldest || template.used < oldest.used) oldest = template
      tid = oldest!.tid
      this.#next++
      // an older fact under this TID would be late for a receiver that knows the previous owner
      lastTs = oldest!.lastTs
      this.#forget(oldest!)
    }
    const template = this.put(new SendTemplate(signature, tid, count))
    // ordinals continue after those of any earlier owner of a TID, so that an old acknowledgement has no effect
    template.ordinal = template.acked = this.#floor
    template.lastTs = lastTs
    if (recycled && policy.diffBase === 'sticky') template.fullOnlyUntil = fullOnlyUntil(policy, nowMs)
    return template
  }

  /** Adds a stored template (registry). */
  put(template: SendTemplate): SendTemplate {
    const before = this.#byTid.get(template.tid)
    if (before) this.#forget(before)
    this.#byTid.set(template.tid, template)
    this.#bySignature.set(template.signature, template)
    this.touch(template)
    return template
  }

  #forget(template: SendTemplate): void {
    template.alive = false
    this.#floor = Math.max(this.#floor, template.ordinal)
    this.#byTid.delete(template.tid)
    this.#bySignature.delete(template.signature)
  }

  /** The next packet of every template is FULL. */
  keyFrames(): void {
    for (const template of this.#byTid.values()) template.forceFull = true
  }

  /** by ascending TID */
  all(): SendTemplate[] {
    return [...this.#byTid.values()].sort((a, b) => a.tid - b.tid)
  }
}
