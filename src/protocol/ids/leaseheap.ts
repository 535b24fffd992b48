// Ids in the order in which their leases end: a binary heap, so that looking for ended leases never looks at all ids. The
// order is by `due`; a lease that was only prolonged is put right when its id comes up. Nothing here fails.

export interface Leased {
  /** when the lease ends; 0: never */
  end: number
  /** not later than `end` */
  due: number
  /** index in the heap; -1: not in it */
  place: number
}

export class LeaseHeap<T extends Leased> {
  readonly #heap: T[] = []

  /** Takes over a new `end` of the item. */
  update(item: T): void {
    if (item.end === 0) this.remove(item)
    else if (item.place < 0 || item.end < item.due) this.#set(item)
  }

  /** An item whose lease has ended at `now`. */
  firstEnded(now: number): T | undefined {
    for (let first = this.#heap[0]; first && first.due <= now; first = this.#heap[0]) {
      if (first.end <= now) return first
      this.#set(first)
    }
    return undefined
  }

  remove(item: T): void {
    const at = item.place
    if (at < 0) return
    item.place = -1
    const last = this.#heap.pop()!
    if (last !== item) this.#sink(this.#rise(at, last), last)
  }

  #set(item: T): void {
    item.due = item.end
    this.#sink(this.#rise(item.place < 0 ? this.#heap.length : item.place, item), item)
  }

  #put(at: number, item: T): void {
    this.#heap[at] = item
    item.place = at
  }

  /** Moves the hole at `at` up to where `item` belongs; returns where that is. */
  #rise(hole: number, item: T): number {
    let at = hole
    while (at > 0) {
      const parent = (at - 1) >>> 1
      if (this.#heap[parent]!.due <= item.due) break
      this.#put(at, this.#heap[parent]!)
      at = parent
    }
    return at
  }

  #sink(hole: number, item: T): void {
    const heap = this.#heap
    let at = hole
    for (let child = 2 * at + 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && heap[child + 1]!.due < heap[child]!.due) child++
      if (heap[child]!.due >= item.due) break
      this.#put(at, heap[child]!)
      at = child
    }
    this.#put(at, item)
  }
}
