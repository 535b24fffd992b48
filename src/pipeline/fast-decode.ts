// Fast path for most frames: plaintext of one route, with a time in ms that is not too far in the future, for a
// template that is in memory, complete and not newer. For every other frame the result is null, and the receiver
// decodes it normally from the start; so there are no errors. Hot path: no object is allocated.
import { COMMAND } from '../wire/commands'
import { HEADER_SIZE, readU32, U32 } from '../wire/frame'
import { SECONDS } from './firmware'
import { FullPatterns } from './full-pattern'
import type { MetaOfBytes, SlotHistory } from './slots'
import type { AidStates } from './sources'

export class FastDecoder {
  readonly patterns = new FullPatterns()
  /** whether the last frame is newer than its template's previous one */
  advanced = false
  readonly #sources: AidStates
  readonly #latest: () => number
  readonly #metaOf: MetaOfBytes

  constructor(sources: AidStates, latest: () => number, metaOf: MetaOfBytes) {
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
