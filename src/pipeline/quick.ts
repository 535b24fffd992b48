// What nearly every frame is, read the shortest way: plaintext of one route, with a time in ms that is not too far ahead, on a
// template that is in memory, whole and not newer. For every other frame the answer is null, and the receiver reads it the long
// way, which does again what was done here; so nothing can fail. Hot path: no object is made.
import { COMMAND } from '../wire/commands'
import { HEADER_SIZE, readU32, U32 } from '../wire/frame'
import { SECONDS } from './firmware'
import { FullPatterns } from './full-pattern'
import type { MetaOfBytes, SlotHistory } from './slots'
import type { Sources } from './sources'

export class QuickReader {
  readonly patterns = new FullPatterns()
  /** whether the frame read last is newer than what its template had */
  advanced = false
  readonly #sources: Sources
  readonly #latest: () => number
  readonly #metaOf: MetaOfBytes

  constructor(sources: Sources, latest: () => number, metaOf: MetaOfBytes) {
    this.#sources = sources
    this.#latest = latest
    this.#metaOf = metaOf
  }

  /** Reads a plainFrame into the newest row of its template. */
  read(bytes: Uint8Array, start: number, end: number, epoch: number, now: number): SlotHistory | null {
    const ts = ((bytes[start + 7]! << 8) | bytes[start + 8]!) * U32 + readU32(bytes, start + 9)
    if (ts < SECONDS || (ts > now && ts > this.#latest())) return null
    const scope = this.#sources.recent(readU32(bytes, start + 2), epoch, now)
    const history = scope?.templates.get(bytes[start + 6]!)
    if (history === undefined || !history.follows(ts)) return null
    const body = start + HEADER_SIZE
    const cmd = bytes[start]
    if (cmd === COMMAND.DATA_FULL) {
      if (!this.patterns.read(history, bytes, body, end - 3)) return null
    } else {
      history.begin(history.head, false)
      if (cmd === COMMAND.DATA_DIFF && !history.apply(bytes, body, end - 3, this.#metaOf)) return null
    }
    this.advanced = ts > history.newest
    history.keep(ts)
    return history
  }
}
