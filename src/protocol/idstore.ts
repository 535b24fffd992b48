// Where the allocator's state survives: a checkpoint (the JSON file of PROTOCOL §8) and a journal of the changes since,
// `<file>.journal`, one line each: CRC-32C in 8 hex digits, a space, JSON, a line feed.
//
// What fails: a write that fails (full disk) keeps its lines in memory, and commit() rejects until they are written; a
// reply that waits for commit() is not sent. A line without its line feed is the torn end of a write nobody was told of; it is
// cut. A damaged line elsewhere is skipped, the journal kept aside as `.damaged`, and the state marked, so that no id
// whose owner may be lost is handed out again. An unreadable checkpoint is an error (STORAGE): without it every id could be
// given twice, so nothing is given. The checkpoint is rewritten at close() and when the journal has grown far beyond it.
import { dirname } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { crc32c } from '../wire/crc'
import { applyChange, changeFrom, emptyState, type IdChange, type IdState, stateFromJson, stateToJson } from './idstate'

export interface IdStore {
  /** The state as last kept; null when there is none yet. Throws STORAGE when it cannot be read. */
  load(): IdState | null
  /** Notes a change, in order; it is on the medium when a later commit() settles. Does not throw. */
  append(change: IdChange): void
  /** Settles when every change appended before is on the medium; rejects when it could not be written. */
  commit(): Promise<void>
  /** Offers the whole state; the store may take it as its new start. */
  checkpoint(state: IdState, force?: boolean): void
  close(): void
}

/** Keeps nothing. */
export const memoryIdStore = (): IdStore => ({
  load: () => null,
  append: () => undefined,
  commit: () => Promise.resolve(),
  checkpoint: () => undefined,
  close: () => undefined,
})

/** a journal smaller than this is never worth a checkpoint */
const SMALL_JOURNAL = 256 * 1024

const line = (change: IdChange): Buffer => {
  const json = Buffer.from(JSON.stringify(change), 'utf8')
  return Buffer.concat([Buffer.from(`${crc32c(json).toString(16).padStart(8, '0')} `), json, Buffer.from('\n')])
}

function parseLine(bytes: Buffer): IdChange | null {
  if (bytes.length < 10 || bytes[8] !== 0x20) return null
  const json = bytes.subarray(9)
  if (bytes.toString('latin1', 0, 8) !== crc32c(json).toString(16).padStart(8, '0')) return null
  try {
    return changeFrom(JSON.parse(json.toString('utf8')))
  } catch {
    // the CRC holds and the text is no JSON: written by somebody else, counted as damage by the caller
    return null
  }
}

export class FileIdStore implements IdStore {
  readonly #path: string
  readonly #journal: string
  readonly #files: Files
  #fd: number | null = null
  /** bytes of the journal known to be whole lines */
  #length = 0
  /** the file may hold more than #length: a write failed half way */
  #ragged = false
  #pending: Buffer[] = []
  #unsynced = false
  #checkpointSize = 0
  #syncing: Promise<void> | null = null
  #following: Promise<void> | null = null

  constructor(path: string, files: Files = realFiles) {
    this.#path = path
    this.#journal = `${path}.journal`
    this.#files = files
  }

  load(): IdState | null {
    const state = this.#readCheckpoint()
    const journal = this.#files.exists(this.#journal) ? this.#files.read(this.#journal) : null
    if (!state && !journal) return null
    return this.#replay(state ?? emptyState(), journal ?? Buffer.alloc(0))
  }

  append(change: IdChange): void {
    this.#pending.push(line(change))
    this.#unsynced = true
    try {
      this.#write()
    } catch {
      // stays pending; commit() tries again and tells its caller
    }
  }

  commit(): Promise<void> {
    if (!this.#unsynced) return this.#syncing ?? Promise.resolve()
    if (!this.#syncing) return this.#sync()
    this.#following ??= this.#syncing
      .catch(() => undefined)
      .then(() => {
        this.#following = null
        return this.#sync()
      })
    return this.#following
  }

  checkpoint(state: IdState, force = false): void {
    if (!force && (this.#syncing || this.#length < Math.max(SMALL_JOURNAL, 4 * this.#checkpointSize))) return
    const text = `${JSON.stringify(stateToJson(state), null, 2)}\n`
    this.#files.mkdir(dirname(this.#path))
    atomicWrite(this.#path, text, this.#files)
    this.#checkpointSize = text.length
    // from here on the journal says nothing new; a crash before it is empty replays it onto the same state
    this.#pending = []
    this.#unsynced = false
    this.#closeJournal()
    if (this.#files.exists(this.#journal)) this.#files.truncate(this.#journal, 0)
    this.#length = 0
    this.#ragged = false
  }

  close(): void {
    this.#closeJournal()
  }

  #readCheckpoint(): IdState | null {
    if (!this.#files.exists(this.#path)) return null
    const text = this.#files.read(this.#path).toString('utf8')
    this.#checkpointSize = text.length
    let state: IdState | null = null
    let cause: unknown
    try {
      state = stateFromJson(JSON.parse(text))
    } catch (error) {
      cause = error
    }
    if (state) return state
    throw new OsError('STORAGE', `${this.#path} cannot be read: no ids are handed out`, {
      cause,
      hint: `restore ${this.#path} from a backup; only if no device keeps an id, remove it`,
    })
  }

  #replay(state: IdState, journal: Buffer): IdState {
    let good = 0
    let lost = 0
    for (let end = journal.indexOf(10); end >= 0; end = journal.indexOf(10, good)) {
      const change = parseLine(journal.subarray(good, end))
      if (change) applyChange(state, change)
      else lost++
      good = end + 1
    }
    if (lost > 0) {
      atomicWrite(`${this.#journal}.damaged`, journal, this.#files)
      state.damaged = true
      // each lost line may have given out one id that no later line names
      state.next_candidate = Math.min(0xffff_ffff, state.next_candidate + lost)
      state.released.length = 0
    }
    this.#length = good
    this.#ragged = good < journal.length
    return state
  }

  #write(): void {
    if (this.#fd === null) this.#openJournal()
    while (this.#pending.length > 0) {
      const next = this.#pending[0]!
      if (this.#ragged) this.#cut()
      this.#ragged = true
      this.#files.write(this.#fd!, next)
      this.#ragged = false
      this.#length += next.length
      this.#pending.shift()
    }
  }

  #openJournal(): void {
    this.#files.mkdir(dirname(this.#path))
    const fresh = !this.#files.exists(this.#journal)
    if (this.#ragged) this.#cut()
    this.#fd = this.#files.open(this.#journal, 'a')
    if (fresh) this.#files.syncDir(dirname(this.#path))
  }

  #cut(): void {
    this.#files.truncate(this.#journal, this.#length)
    this.#ragged = false
  }

  #sync(): Promise<void> {
    const run = async (): Promise<void> => {
      this.#write()
      this.#unsynced = false
      try {
        if (this.#fd !== null) await this.#files.sync(this.#fd)
      } catch (error) {
        this.#unsynced = true
        throw error
      }
    }
    this.#syncing = run().finally(() => {
      this.#syncing = null
    })
    return this.#syncing
  }

  #closeJournal(): void {
    if (this.#fd !== null) this.#files.close(this.#fd)
    this.#fd = null
  }
}
