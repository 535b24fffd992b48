// What termios writes between the bytes of a port with INPCK and PARMRK: FF 00 X stands for a byte X with a wrong parity or
// stop bit (FF 00 00 also for a break), FF FF for a byte FF. A mark may be cut anywhere between two reads.
//
// What fails: FF in front of anything else is no mark that a kernel writes: it counts as a damaged byte.

const MARK = 0xff

export interface MarkedBytes {
  /** `chunk` is only valid during the call */
  data(chunk: Uint8Array): void
  /** a byte that is not to be believed, where it came between the others */
  damaged(byte: number): void
}

export class MarkReader {
  readonly #to: MarkedBytes
  /** how much of a mark has come: nothing, FF, FF 00 */
  #seen: 0 | 1 | 2 = 0

  constructor(to: MarkedBytes) {
    this.#to = to
  }

  /** Hands on the bytes in their order. Overwrites `chunk`. Runs for every read: without FF the chunk passes as it is. */
  push(chunk: Uint8Array): void {
    const first = this.#seen > 0 ? 0 : chunk.indexOf(MARK)
    if (first < 0) {
      this.#to.data(chunk)
      return
    }
    let from = 0
    let to = first
    for (let k = first; k < chunk.length; k++) {
      const byte = chunk[k]!
      const seen = this.#seen
      this.#seen = 0
      if (seen === 0 && byte === MARK) this.#seen = 1
      else if (seen === 1 && byte === 0) this.#seen = 2
      else if (seen === 0 || (seen === 1 && byte === MARK)) chunk[to++] = byte
      else {
        if (to > from) this.#to.data(chunk.subarray(from, to))
        this.#to.damaged(seen === 2 ? byte : MARK)
        from = to
        if (seen === 1) chunk[to++] = byte
      }
    }
    if (to > from) this.#to.data(chunk.subarray(from, to))
  }
}
