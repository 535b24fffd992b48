// The spill of released ids as a file of lines, `<file>.released`, each a list of ids.
//
// What fails: a damaged line loses the ids it named from the list, not from the range: the file is kept aside as `.damaged`,
// and the allocator finds ids that are in no list before it says that the pool is exhausted.
import type { Files } from '../lib/files'
import { LineBatch, LineFile } from './linefile'
import type { Spill } from './released'

/** ids per line */
const AT_ONCE = 4096

export class FileSpill implements Spill {
  readonly #file: LineFile
  #damaged = 0

  constructor(path: string, files: Files) {
    this.#file = new LineFile(path, files)
  }

  /** lines that could not be read */
  get damaged(): number {
    return this.#damaged
  }

  append(ids: readonly number[]): void {
    this.#file.write(lines(ids))
  }

  read(): number[] {
    const ids: number[] = []
    let damaged = 0
    this.#file.read(value => {
      if (Array.isArray(value)) for (const id of value) ids.push(id)
      else damaged++
    })
    if (damaged > this.#damaged) this.#file.keepAside()
    this.#damaged = damaged
    return ids
  }

  sync(): void {
    this.#file.syncNow()
  }

  replace(ids: readonly number[]): void {
    this.#file.replace(ids.length === 0 ? Buffer.alloc(0) : lines(ids))
  }

  close(): void {
    this.#file.close()
  }
}

function lines(ids: readonly number[]): Buffer {
  const batch = new LineBatch()
  for (let k = 0; k < ids.length; k += AT_ONCE) batch.add(JSON.stringify(ids.slice(k, k + AT_ONCE)))
  return batch.take()
}
