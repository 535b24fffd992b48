// The recently sent frames, so that only a NACK for one of them is accepted (X9): sent within 60 s, named with its TID, TS
// field and checksum, and at most once in 10 s per AID. The ring has room for two windows of the delivery exchange.
import type { RefusedFrame } from '../../protocol/nack'

type SentFrame = Pick<RefusedFrame, 'aid' | 'tid' | 'ts' | 'crc16'>

const REMEMBERED = 2048
const FRAME_MS = 60_000
const MIN_INTERVAL_MS = 10_000
const MAX_AIDS = 4096

export class RecentFrames {
  readonly #aids = new Float64Array(REMEMBERED)
  readonly #times = new Float64Array(REMEMBERED)
  /** TID and checksum in one number */
  readonly #marks = new Uint32Array(REMEMBERED)
  /** log record of the frame; 0: unknown, or taken */
  readonly #seqs = new Float64Array(REMEMBERED)
  readonly #at = new Float64Array(REMEMBERED).fill(Number.NEGATIVE_INFINITY)
  readonly #obeyed = new Map<number, number>()
  #next = 0

  note({ aid, tid, ts, crc16 }: SentFrame, now: number, seq = 0): void {
    const k = this.#next
    this.#seqs[k] = seq
    this.#aids[k] = aid
    this.#times[k] = ts
    this.#marks[k] = (tid << 16) | crc16
    this.#at[k] = now
    this.#next = (k + 1) % REMEMBERED
  }

  /** Whether exactly that frame was sent in the last minute, and not before `since`. */
  sent({ aid, tid, ts, crc16 }: SentFrame, now: number, since = Number.NEGATIVE_INFINITY): boolean {
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
  takeSeq({ aid, tid, ts, crc16 }: SentFrame): number {
    const mark = ((tid << 16) | crc16) >>> 0
    const k = this.#marks.findIndex((m, i) => m === mark && this.#times[i] === ts && this.#aids[i] === aid)
    if (k < 0) return 0
    const seq = this.#seqs[k]!
    this.#seqs[k] = 0
    return seq || -1
  }

  /** True if a NACK for that frame is accepted now. */
  obey(frame: SentFrame, now: number): boolean {
    const { aid } = frame
    if (now - (this.#obeyed.get(aid) ?? Number.NEGATIVE_INFINITY) < MIN_INTERVAL_MS) return false
    if (!this.sent(frame, now)) return false
    if (this.#obeyed.size >= MAX_AIDS) this.#obeyed.clear()
    this.#obeyed.set(aid, now)
    return true
  }
}
