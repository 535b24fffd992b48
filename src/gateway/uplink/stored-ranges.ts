// A short list of ranges of the log, stored in the log as counters: `<prefix><number>:<key>`. A range beyond the end of the list has zeros.
//
// Errors: what an append to the log throws. The next write() then writes the remaining ranges.
import type { FlashLog } from '../../log'

export class StoredRanges<Key extends string> {
  readonly #log: FlashLog
  readonly #keys: readonly Key[]
  /** of the counters, by range and key */
  readonly #names: readonly (readonly string[])[]
  /** ranges that the log may have */
  #stored: number

  /** At most `most` ranges: those after them are not stored. */
  constructor(log: FlashLog, prefix: string, keys: readonly Key[], most: number) {
    this.#log = log
    this.#keys = keys
    this.#names = Array.from({ length: most }, (_, k) => keys.map(key => `${prefix}${k}:${key}`))
    this.#stored = most
  }

  read(): Record<Key, number>[] {
    return this.#names.map(
      names =>
        Object.fromEntries(this.#keys.map((key, at) => [key, this.#log.counter(names[at]!) ?? 0])) as Record<
          Key,
          number
        >,
    )
  }

  /** Writes what differs from the log; true if anything does. */
  write(list: readonly Readonly<Record<Key, number>>[]): boolean {
    let written = false
    const { length } = this.#names
    this.#stored = Math.min(Math.max(this.#stored, list.length), length)
    for (let k = 0; k < this.#stored; k++)
      for (const [at, name] of this.#names[k]!.entries()) {
        const value = list[k]?.[this.#keys[at]!] ?? 0
        if ((this.#log.counter(name) ?? 0) === value) continue
        this.#log.appendCounter(name, value)
        written = true
      }
    this.#stored = Math.min(list.length, length)
    return written
  }
}
