// Templates of the sending side: what was sent to the peer last, slot by slot, and what the next DIFF must repeat (D6). A
// sensor has two slots, its `state.unit` and its value; the value is kept as the fixed-point number, so a comparison is
// one of numbers. Every slot holds the ordinal of the packet that last changed it: a DIFF carries the slots changed
// after the base, which is the packet before in `last`, the newest acknowledged one (or the first FULL) in `sticky`.
// TIDs are taken in turn and, when none is free, from the least recently used template (X12).
import { decodeInteger, encodeInteger, NO_VALUE, NO_VALUE_TEXT, parseBase62 } from '../wire/base62'

export interface DiffPolicy {
  diffBase: 'last' | 'sticky'
  /** a key frame after so many packets; 0 = never */
  fullEvery: number
  /** a key frame after so many milliseconds; 0 = never */
  fullIntervalMs: number
  /** key frames due by count or time keep that many milliseconds apart; left out: 0 */
  fullGapMs?: number
  /** the peer acknowledges packets */
  acknowledged?: boolean
}

/**
 * Until when (mono ms) a TID that meant something else before sends FULL only: where packets are acknowledged until one is,
 * elsewhere for the time of a key frame, in which at least one FULL is taken to arrive.
 */
export const fullOnlyUntil = ({ acknowledged, fullIntervalMs }: DiffPolicy, nowMs: number): number =>
  acknowledged ? Number.POSITIVE_INFINITY : nowMs + fullIntervalMs

/** What a packet's making knows of time, in an array so that no number goes to the heap: `times[TS]`, `times[NOW]`. */
export const TS = 0
/** mono milliseconds; only set where readsClock() says so */
export const NOW = 1

/** True when a policy decides by time; the others are spared the clock (50 ns). */
export const readsClock = (policy: DiffPolicy): boolean =>
  policy.diffBase === 'sticky' || policy.fullIntervalMs > 0 || (policy.fullGapMs ?? 0) > 0

/** The reference's bytes: each DIFF against the packet before, no key frames. */
export const REFERENCE_POLICY: DiffPolicy = { diffBase: 'last', fullEvery: 0, fullIntervalMs: 0 }

/** no link holds a packet back for longer */
const UNDER_WAY_MS = 10_000
const MOST_FULLS = 8

export class SendTemplate {
  /** false once its TID went to another signature */
  alive = true
  /** the slots are those the peer got; false until the first FULL */
  known = false
  readonly metas: string[]
  /** values as fixed point; NaN where the text is not the one we would write, then `odd` holds it */
  readonly numbers: Float64Array
  odd: string[] | null = null
  readonly metaOrdinals: Float64Array
  readonly valueOrdinals: Float64Array
  /** number of the last packet of this template, counted on from the template that had the TID before */
  ordinal = 0
  /** newest acknowledged packet; the starting number = none */
  acked = 0
  sinceFull = 0
  /** mono milliseconds of the last FULL */
  fullAt = 0
  /** the next packet is a key frame */
  forceFull = false
  /** only FULL until this mono time: the TID meant something else before */
  fullOnlyUntil = 0
  /** TS of the newest packet */
  lastTs = -1
  used = 0
  /** FULLs that may still be under way, oldest first */
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

  /** Takes a value as text; true when it differs from the one before. */
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

  /** slots as the registry keeps them: meta, value, meta, value … */
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
   * Slots with a larger ordinal go into the next DIFF. A FULL that may still be under way counts as the base although a
   * newer packet is acknowledged: a receiver that lost its templates in between would build on that FULL.
   */
  base(policy: DiffPolicy, times: Float64Array): number {
    if (policy.diffBase !== 'sticky') return this.ordinal
    const fulls = this.#fulls
    while (fulls.length > 0 && fulls[0]!.at <= times[NOW]! - UNDER_WAY_MS) fulls.shift()
    return fulls.length > 0 && fulls[0]!.ordinal < this.acked ? fulls[0]!.ordinal : this.acked
  }

  /** Takes the values of every slot from a FULL. */
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

  /** Books a packet that was built whole. */
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

/** All templates one AID sends on one way out. */
export class SendStore {
  readonly #bySignature = new Map<string, SendTemplate>()
  readonly #byTid = new Map<number, SendTemplate>()
  #tick = 0
  #floor = 0
  #next: number

  /** TIDs run from 1 to `maxTid`; `counter` is the first to use, and counts on past the end (so a wrap is seen). */
  constructor(
    readonly maxTid = 255,
    counter = 1,
  ) {
    this.#next = Math.max(1, counter)
  }

  /** the counter a later run must start with */
  get nextTid(): number {
    return this.#next
  }

  /** Goes on at this counter at the earliest. */
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

  /** A template for a signature that has none. A TID that had another meaning sends FULL only for a while. */
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
      // an older fact under this TID would be late to a receiver that knows the owner before
      lastTs = oldest!.lastTs
      this.#forget(oldest!)
    }
    const template = this.put(new SendTemplate(signature, tid, count))
    // ordinals go on where any earlier owner of a TID stopped, so an old acknowledgement means nothing here
    template.ordinal = template.acked = this.#floor
    template.lastTs = lastTs
    if (recycled && policy.diffBase === 'sticky') template.fullOnlyUntil = fullOnlyUntil(policy, nowMs)
    return template
  }

  /** Takes a template as it was kept (registry). */
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
