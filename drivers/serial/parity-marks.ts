// Decodes the marks that termios inserts with INPCK and PARMRK: FF 00 X is a byte X with a parity or framing error (FF
// 00 00 also a break), FF FF is a byte FF. A mark can be split at any place between two reads.
//
// Errors: FF before anything else is not a mark that a kernel writes: it counts as a damaged byte.

const MARK = 0xff

export interface MarkedBytes {
  /** `chunk` is only valid during the call */
  data(chunk: Uint8Array): void
  /** a byte with an error, at its position among the others */
  damaged(byte: number): void
}

export class MarkReader {
  readonly #to: MarkedBytes
  /** the part of a mark received so far: nothing, FF, FF 00 */
  #seen: 0 | 1 | 2 = 0

  constructor(to: MarkedBytes) {
    this.#to = to
  }

  /** Passes on the bytes in order. Overwrites `chunk`. Runs for every read: a chunk without FF is passed on unchanged. */
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
