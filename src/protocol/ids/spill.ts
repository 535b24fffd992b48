// The spill of released ids as a file of lines, `<file>.released`, each an ascending list of ids. Where each line begins and
// which ids it spans is kept in memory, so that the lowest ids are read without the rest.
//
// What fails: a damaged line loses the ids it named from the list, not from the range: the file is kept aside as `.damaged`,
// and the allocator finds ids that are in no list before it says that the pool is exhausted.
import type { Files } from '../../lib/files'
import { LineBatch, LineFile } from './linefile'
import type { Spill } from './released'

/** ids per line */
const AT_ONCE = 4096
/** lines that one read may take before the file is put in order */
const LINES_AT_ONCE = 32

interface Line {
  readonly at: number
  readonly length: number
  readonly lowest: number
  readonly highest: number
  readonly count: number
}

export class FileSpill implements Spill {
  readonly #file: LineFile
  /** null: the file was not looked at yet */
  #lines: Line[] | null = null
  #count = 0
  #damaged = 0

  constructor(path: string, files: Files) {
    this.#file = new LineFile(path, files)
  }

  get count(): number {
    this.#index()
    return this.#count
  }

  /** lines that could not be read */
  get damaged(): number {
    return this.#damaged
  }

  append(ids: readonly number[]): void {
    const lines = this.#index()
    const { bytes, spans } = linesOf(Float64Array.from(ids).sort())
    const start = this.#file.length
    this.#file.write(bytes)
    for (const span of spans) lines.push({ ...span, at: start + span.at })
    this.#count += ids.length
  }

  read(from: number, want: number): { ids: number[]; below: number } {
    const lines = this.#index()
      .filter(line => line.highest >= from)
      .sort((a, b) => a.lowest - b.lowest)
    const ids: number[] = []
    for (let k = 0; k < lines.length; k++) {
      const { at, length, lowest } = lines[k]!
      if (ids.length >= want) {
        const whole = ids.filter(id => id < lowest)
        if (whole.length >= want) return { ids: whole, below: lowest }
      }
      if (k === LINES_AT_ONCE && want < this.#count && this.#putInOrder()) return this.read(from, want)
      const value = this.#file.valueAt(at, length)
      if (Array.isArray(value)) for (const id of value) if (id >= from) ids.push(id)
    }
    return { ids, below: Number.POSITIVE_INFINITY }
  }

  sync(): void {
    this.#file.syncNow()
  }

  replace(ids: readonly number[]): void {
    const { bytes, spans } = linesOf(Float64Array.from(ids).sort())
    this.#file.replace(bytes)
    this.#lines = spans
    this.#count = ids.length
  }

  close(): void {
    this.#file.close()
  }

  #index(): Line[] {
    if (this.#lines) return this.#lines
    const lines: Line[] = []
    this.#file.read((value, at, length) => {
      if (!Array.isArray(value) || value.length === 0) this.#damaged++
      else {
        lines.push({ at, length, lowest: value[0], highest: value.at(-1), count: value.length })
        this.#count += value.length
      }
    })
    if (this.#damaged > 0) this.#file.keepAside()
    this.#lines = lines
    return lines
  }

  /**
   * Writes the same ids anew, ascending over all lines: not those only that are still free, since an id must stay here until a
   * checkpoint names it. False when that helps nothing or the disk refuses; reading goes on as it is then.
   */
  #putInOrder(): boolean {
    const lines = this.#index()
    const ordered = lines.every((line, k) => k === 0 || line.lowest > lines[k - 1]!.highest)
    const full = lines.reduce((sum, line) => sum + (line.count === AT_ONCE ? 1 : 0), 0)
    if (ordered && full >= lines.length - 1) return false
    const ids = new Set<number>()
    for (const { at, length } of lines) {
      const value = this.#file.valueAt(at, length)
      if (Array.isArray(value)) for (const id of value) ids.add(id)
    }
    try {
      this.replace([...ids])
      return true
    } catch {
      // the old file stays
      return false
    }
  }
}

function linesOf(ids: Float64Array): { bytes: Buffer; spans: Line[] } {
  const batch = new LineBatch()
  const spans: Line[] = []
  for (let k = 0; k < ids.length; k += AT_ONCE) {
    const part = ids.subarray(k, k + AT_ONCE)
    const at = batch.used
    batch.add(JSON.stringify([...part]))
    const length = batch.used - at - 1
    spans.push({ at, length, lowest: part[0]!, highest: part.at(-1)!, count: part.length })
  }
  return { bytes: batch.take(), spans }
}
