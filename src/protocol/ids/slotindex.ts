// A hash table from something a row holds (an id, a key) to the row's number: four bytes per place, open addressing, no
// objects. Pure; the caller says how rows are hashed and compared. Nothing here fails.

export class SlotIndex<Wanted> {
  readonly #hashOf: (slot: number) => number
  readonly #matches: (slot: number, wanted: Wanted) => boolean
  /** slot + 1; 0 is an empty place */
  #places = new Uint32Array(256)
  #count = 0

  constructor(hashOf: (slot: number) => number, matches: (slot: number, wanted: Wanted) => boolean) {
    this.#hashOf = hashOf
    this.#matches = matches
  }

  /** The slot that holds `wanted`, whose hash is `hash`; -1 when there is none. */
  find(hash: number, wanted: Wanted): number {
    const places = this.#places
    const mask = places.length - 1
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const slot = places[at]! - 1
      if (slot < 0 || this.#matches(slot, wanted)) return slot
    }
  }

  /** Takes in a slot that is not there yet. */
  insert(slot: number): void {
    if (++this.#count * 4 > this.#places.length * 3) this.#grow()
    this.#place(slot)
  }

  /** False when the slot is not there. */
  remove(slot: number): boolean {
    const places = this.#places
    const mask = places.length - 1
    let hole = this.#hashOf(slot) & mask
    while (places[hole] !== slot + 1) {
      if (places[hole] === 0) return false
      hole = (hole + 1) & mask
    }
    this.#count--
    // what stands behind the hole and could not be found any more moves up
    for (let at = (hole + 1) & mask; places[at] !== 0; at = (at + 1) & mask) {
      const home = this.#hashOf(places[at]! - 1) & mask
      if (((at - home) & mask) < ((at - hole) & mask)) continue
      places[hole] = places[at]!
      hole = at
    }
    places[hole] = 0
    return true
  }

  #place(slot: number): void {
    const places = this.#places
    const mask = places.length - 1
    let at = this.#hashOf(slot) & mask
    while (places[at] !== 0) at = (at + 1) & mask
    places[at] = slot + 1
  }

  #grow(): void {
    const old = this.#places
    this.#places = new Uint32Array(old.length * 2)
    for (let k = 0; k < old.length; k++) if (old[k] !== 0) this.#place(old[k]! - 1)
  }
}
