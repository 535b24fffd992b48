// The rows in the order in which their leases end: a binary heap over IdRows, so that looking for ended leases never looks
// at all rows. The order is by DUE; a lease that was only prolonged is put right when its row comes up. Nothing here fails.
import { DUE, HEAP, type IdRows } from './rows'

export class LeaseHeap {
  readonly #rows: IdRows
  #heap = new Uint32Array(256)
  #size = 0

  constructor(rows: IdRows) {
    this.#rows = rows
  }

  /** The row with the earliest DUE; -1 when there is none. */
  get first(): number {
    return this.#size > 0 ? this.#heap[0]! : -1
  }

  /** Puts a row in its place for `due`, whether it was there or not. */
  set(slot: number, due: number): void {
    const rows = this.#rows
    rows.setTime(slot, DUE, due)
    let at = rows.word(slot, HEAP) - 1
    if (at < 0) {
      if (this.#size === this.#heap.length) {
        const larger = new Uint32Array(this.#size * 2)
        larger.set(this.#heap)
        this.#heap = larger
      }
      at = this.#size++
    }
    this.#sink(this.#rise(at, slot), slot)
  }

  remove(slot: number): void {
    const at = this.#rows.word(slot, HEAP) - 1
    if (at < 0) return
    this.#rows.setWord(slot, HEAP, 0)
    const last = this.#heap[--this.#size]!
    if (at < this.#size) this.#sink(this.#rise(at, last), last)
  }

  #put(at: number, slot: number): void {
    this.#heap[at] = slot
    this.#rows.setWord(slot, HEAP, at + 1)
  }

  /** Moves the hole at `at` up to where `slot` belongs; returns where that is. */
  #rise(at: number, slot: number): number {
    const due = this.#rows.time(slot, DUE)
    while (at > 0) {
      const parent = (at - 1) >>> 1
      const above = this.#heap[parent]!
      if (this.#rows.time(above, DUE) <= due) break
      this.#put(at, above)
      at = parent
    }
    return at
  }

  #sink(at: number, slot: number): void {
    const due = this.#rows.time(slot, DUE)
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.#size) break
      if (
        child + 1 < this.#size &&
        this.#rows.time(this.#heap[child + 1]!, DUE) < this.#rows.time(this.#heap[child]!, DUE)
      )
        child++
      const below = this.#heap[child]!
      if (this.#rows.time(below, DUE) >= due) break
      this.#put(at, below)
      at = child
    }
    this.#put(at, slot)
  }
}
