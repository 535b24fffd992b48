// The recently sent frames, so that only a NACK for one of them is accepted (X7, X9): sent within 60 s, named with its TID, TS
// field and checksum, and at most once in 10 s for each reason and AID. The caller checks that it comes from the uplink's own
// address. Bounded: if more frames are sent in a minute than are remembered, a refusal of an older one is ignored and the
// next one counts.
import { LruMap } from '../../lib/lru-map'
import type { FrameName, RefusedFrame } from '../nack'

/** two windows of the delivery exchange */
const REMEMBERED = 2048
const FRAME_MS = 60_000
const MIN_INTERVAL_MS = 10_000
const MAX_SOURCES = 4096

/** `now`: monotonic ms. */
export class SentFrames {
  readonly #aids: Uint32Array
  readonly #times: Float64Array
  /** TID and checksum in one number */
  readonly #marks: Uint32Array
  /** log record of the frame; 0: unknown, or taken */
  readonly #seqs: Float64Array
  readonly #at: Float64Array
  /** when a refusal was last accepted, by reason and AID */
  readonly #obeyed = new LruMap<string, number>(MAX_SOURCES)
  #next = 0

  constructor(remembered = REMEMBERED) {
    this.#aids = new Uint32Array(remembered)
    this.#times = new Float64Array(remembered)
    this.#marks = new Uint32Array(remembered)
    this.#seqs = new Float64Array(remembered)
    this.#at = new Float64Array(remembered).fill(Number.NEGATIVE_INFINITY)
  }

  /** A frame is being sent; `ts` is its TS field, `crc16` its last two bytes. */
  note({ aid, tid, ts, crc16 }: FrameName, now: number, seq = 0): void {
    const k = this.#next
    this.#seqs[k] = seq
    this.#aids[k] = aid
    this.#times[k] = ts
    this.#marks[k] = (tid << 16) | crc16
    this.#at[k] = now
    this.#next = (k + 1) % this.#aids.length
  }

  /** Whether exactly that frame was sent in the last minute, and not before `since`. */
  sent({ aid, tid, ts, crc16 }: FrameName, now: number, since = Number.NEGATIVE_INFINITY): boolean {
    const mark = ((tid << 16) | crc16) >>> 0
    const first = Math.max(since, now - FRAME_MS)
    return this.#marks.some(
      (m, k) => m === mark && this.#times[k] === ts && this.#aids[k] === aid && this.#at[k]! >= first,
    )
  }

  /**
   * The log record of exactly that frame, returned once; -1: none, or already returned; 0: the frame is not known. However long ago
   * it was sent: a broker may keep a packet until the receiver is back.
   */
  takeSeq({ aid, tid, ts, crc16 }: FrameName): number {
    const mark = ((tid << 16) | crc16) >>> 0
    const k = this.#marks.findIndex((m, i) => m === mark && this.#times[i] === ts && this.#aids[i] === aid)
    if (k < 0) return 0
    const seq = this.#seqs[k]!
    this.#seqs[k] = 0
    return seq || -1
  }

  /** Whether to accept the refusal now; notes the time if so. */
  obey(refused: RefusedFrame, now: number): boolean {
    const key = `${refused.reason} ${refused.aid}`
    if (now - (this.#obeyed.get(key) ?? Number.NEGATIVE_INFINITY) < MIN_INTERVAL_MS) return false
    if (!this.sent(refused, now)) return false
    this.#obeyed.set(key, now)
    return true
  }
}
