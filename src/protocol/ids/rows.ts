// The numbers of the allocator's rows: 64 bytes each, in blocks of 4096 rows, so that a million of them cost neither objects
// nor a copy when one more block is needed. Times are UNIX seconds. Nothing here fails.

/** times */
export const TS = 0
export const LAST_SEEN = 1
export const LEASE_END = 2
export const OFFLINE_SINCE = 3
/** where the row stands in the order of lease ends; not later than LEASE_END */
export const DUE = 4

/** whole numbers; the first ten words are the five times */
export const ID = 10
export const KEY_HASH = 11
/** handle of the texts; of a free row the next free one + 1 */
export const TEXT = 12
/** place in the heap of lease ends + 1; 0: in none */
export const HEAP = 13
/** LAST_SEEN as the journal has it */
export const NOTED = 14
/** 0: active, 1: offline, 2: offered */
export const STATE = 15

const SHIFT = 12
const ROWS = 1 << SHIFT

export class IdRows {
  readonly #times: Float64Array[] = []
  readonly #words: Uint32Array[] = []
  #free = 0
  /** slots 0 … used-1 were in use at least once */
  used = 0

  time(slot: number, field: number): number {
    return this.#times[slot >>> SHIFT]![((slot & (ROWS - 1)) << 3) + field]!
  }
  setTime(slot: number, field: number, value: number): void {
    this.#times[slot >>> SHIFT]![((slot & (ROWS - 1)) << 3) + field] = value
  }
  word(slot: number, field: number): number {
    return this.#words[slot >>> SHIFT]![((slot & (ROWS - 1)) << 4) + field]!
  }
  setWord(slot: number, field: number, value: number): void {
    this.#words[slot >>> SHIFT]![((slot & (ROWS - 1)) << 4) + field] = value
  }

  /** A row of zeros. */
  take(): number {
    if (this.#free > 0) {
      const slot = this.#free - 1
      this.#free = this.word(slot, TEXT)
      this.#words[slot >>> SHIFT]!.fill(0, (slot & (ROWS - 1)) << 4, ((slot & (ROWS - 1)) + 1) << 4)
      return slot
    }
    if (this.used % ROWS === 0) {
      const block = new ArrayBuffer(ROWS * 64)
      this.#times.push(new Float64Array(block))
      this.#words.push(new Uint32Array(block))
    }
    return this.used++
  }

  give(slot: number): void {
    this.setWord(slot, ID, 0)
    this.setWord(slot, TEXT, this.#free)
    this.#free = slot + 1
  }
}
