// The ids that are free again: the lowest in memory, at most `limit`; the others in a spill file, which is read when the list
// in memory is used up. Smallest first, always: what is higher than the lowest spilled id is spilled too.
//
// What fails, and why nothing is given twice or lost: the spill only ever names ids that were free once; one that is in use
// meanwhile is left out when it is read, so a spill older or newer than the rest does no harm. An id stays in the spill until
// a checkpoint names it elsewhere, and the journal is only emptied after flush() put the spill on flash. A spill that cannot
// be written keeps its ids in memory and makes flush() throw.

/** Where spilled ids are kept. Ids may come twice. */
export interface Spill {
  /** ids in it, doubles counted */
  readonly count: number
  /** Throws when they could not be written; they are on flash after sync(). */
  append(ids: readonly number[]): void
  /** All ids ≥ `from` and < `below`, in any order: `want` of them or more, unless that is all there are (`below` infinite). */
  read(from: number, want: number): { ids: number[]; below: number }
  sync(): void
  /** Holds exactly these from now on, on flash. */
  replace(ids: readonly number[]): void
}

export function memorySpill(): Spill {
  let kept: number[] = []
  return {
    get count() {
      return kept.length
    },
    append: ids => {
      kept = kept.concat(ids)
    },
    read: from => ({ ids: kept.filter(id => id >= from), below: Number.POSITIVE_INFINITY }),
    sync: () => undefined,
    replace: ids => {
      kept = [...ids]
    },
  }
}

/** spilled ids written at once */
const BATCH = 4096

export class ReleasedIds {
  readonly #limit: number
  readonly #spill: Spill
  readonly #inUse: (id: number) => boolean
  /** descending: the next one to hand out is the last */
  #list: number[] = []
  /** spilled, not in the file yet */
  #tail: number[] = []
  /** free ids in file and tail */
  #spilled = 0
  /** no spilled id is lower */
  #floor = Number.POSITIVE_INFINITY
  #cleared = false
  /** counts refills: a checkpoint made before one does not hold all that left the spill */
  refills = 0

  constructor(limit: number, spill: Spill, inUse: (id: number) => boolean) {
    this.#limit = limit
    this.#spill = spill
    this.#inUse = inUse
  }

  /** Free ids, in memory and spilled. */
  get size(): number {
    return this.#list.length + this.#spilled
  }

  /** Those in memory, ascending. */
  inMemory(): number[] {
    return this.#list.toReversed()
  }

  add(id: number): void {
    if (id > this.#floor) {
      this.#toSpill(id)
      return
    }
    const at = this.#place(id)
    if (this.#list[at] === id) return
    if (at === this.#list.length) this.#list.push(id)
    else this.#list.splice(at, 0, id)
    if (this.#list.length > this.#limit) this.#toSpill(this.#list.shift()!)
  }

  /** The id is in use now. */
  remove(id: number): void {
    if (this.#list.at(-1) === id) {
      this.#list.pop()
      return
    }
    const at = this.#place(id)
    if (this.#list[at] === id) this.#list.splice(at, 1)
  }

  /** The smallest free id; null when there is none. */
  lowest(): number | null {
    if (this.#list.length === 0 && this.#spilled > 0) this.#refill()
    return this.#list.at(-1) ?? null
  }

  /** Forgets all of them; the file is emptied by the next flush(). */
  clear(): void {
    this.#list = []
    this.#tail = []
    this.#spilled = 0
    this.#floor = Number.POSITIVE_INFINITY
    this.#cleared = true
  }

  /** Counts what is spilled, once the ids in use are known. */
  settle(): void {
    const free = this.#free(0, Number.POSITIVE_INFINITY).ids
    this.#floor = free[0] ?? Number.POSITIVE_INFINITY
    this.#spilled = free.length
    while (this.#list.length > 0 && this.#list[0]! > this.#floor) this.#toSpill(this.#list.shift()!)
  }

  /** Puts everything spilled on flash. Throws when that failed. */
  flush(): void {
    if (this.#cleared) this.#spill.replace([])
    this.#cleared = false
    this.#write()
    this.#spill.sync()
  }

  /** After a checkpoint that names everything not spilled: leaves out of the file what is free no more, if that is most. */
  compact(): void {
    const { count } = this.#spill
    if (count <= 2 * this.#spilled + BATCH && (this.#spilled > 0 || count === 0)) return
    this.#spill.replace(this.#free(0, Number.POSITIVE_INFINITY).ids)
    this.#tail = []
  }

  #toSpill(id: number): void {
    this.#tail.push(id)
    this.#spilled++
    if (id < this.#floor) this.#floor = id
    if (this.#tail.length % BATCH !== 0) return
    try {
      this.#write()
    } catch {
      // they stay in memory, and flush() tells the caller before anything relies on the file
    }
  }

  #write(): void {
    if (this.#cleared || this.#tail.length === 0) return
    this.#spill.append(this.#tail)
    this.#tail = []
  }

  #refill(): void {
    this.refills++
    while (this.#list.length === 0 && this.#spilled > 0) {
      const { ids, below } = this.#free(this.#floor, this.#limit)
      this.#floor = ids[this.#limit] ?? below
      this.#list = ids.slice(0, this.#limit).reverse()
      // none left though some were counted: a part of the file cannot be read
      this.#spilled = this.#floor === Number.POSITIVE_INFINITY ? 0 : this.#spilled - this.#list.length
    }
  }

  /** The spilled ids from `from` to `below` that are free and not in memory, ascending, each once; see Spill.read. */
  #free(from: number, want: number): { ids: number[]; below: number } {
    const { ids, below } = this.#cleared ? { ids: [], below: Number.POSITIVE_INFINITY } : this.#spill.read(from, want)
    for (const id of this.#tail) if (id >= from && id < below) ids.push(id)
    const free: number[] = []
    for (const id of Float64Array.from(ids).sort())
      if (id !== free.at(-1) && !this.#inUse(id) && this.#list[this.#place(id)] !== id) free.push(id)
    return { ids: free, below }
  }

  /** Where `id` is, or belongs, in the descending list. */
  #place(id: number): number {
    const list = this.#list
    let low = 0
    let high = list.length
    if (high > 0 && id < list[high - 1]!) return high
    while (low < high) {
      const middle = (low + high) >>> 1
      if (list[middle]! > id) low = middle + 1
      else high = middle
    }
    return low
  }
}
