// Where the allocator's state survives: a checkpoint (`data/id_allocation.json`), a journal of the changes since,
// `<file>.journal`, and the released ids that memory does not hold, `<file>.released`.
//
// What fails: a write that fails (full disk) keeps its lines in memory, and commit() rejects until they are written; a
// reply that waits for commit() is not sent. A torn last line is cut. A damaged line elsewhere is skipped, the journal kept
// aside as `.damaged`, and the state marked, so that no id whose owner may be lost is handed out again. After a failed
// sync nobody knows what of the journal is on flash: a new checkpoint is made before anything is told. An unreadable
// checkpoint is an error (STORAGE): without it every id could be given twice, so nothing is given.
//
// The order of a checkpoint is what makes a crash at any point harmless: the spill is on flash, then the new JSON file is in
// its place, and only then the journal loses the lines that both hold. A journal applied again changes nothing. At stop()
// that happens at once; when the journal has grown as long as the checkpoint it happens in pieces between other work, and
// the changes of that time stay in the journal.
import { dirname } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { type Files, realFiles } from '../../lib/files'
import { checkpointPieces, readCheckpoint } from './checkpoint'
import { LineBatch, LineFile } from './linefile'
import { memorySpill, type Spill } from './released'
import { FileSpill } from './spill'
import { changeFrom, changeText, type IdChange, type IdState } from './state'

export interface IdStore {
  /** where released ids go that memory shall not hold */
  readonly spill: Spill
  /** Fills a new state with what was last kept, and keeps to it from then on. Throws STORAGE when it cannot be read. */
  load(state: IdState): void
  /** Notes a change, in order; it is on the medium when a later commit() settles. Does not throw. */
  append(change: IdChange): void
  /** Settles when every change appended before is on the medium; rejects when it could not be written. */
  commit(): Promise<void>
  /** The store may keep the whole state anew, in its own time; rejects when that failed, and nothing is lost by it. */
  checkpoint(): Promise<void>
  /** The same at once. Throws. */
  checkpointNow(): void
  close(): void
}

/** Keeps nothing. */
export const memoryIdStore = (): IdStore => ({
  spill: memorySpill(),
  load: () => undefined,
  append: () => undefined,
  commit: () => Promise.resolve(),
  checkpoint: () => Promise.resolve(),
  checkpointNow: () => undefined,
  close: () => undefined,
})

/** a journal smaller than this is never worth a checkpoint */
const SMALL_JOURNAL = 256 * 1024
/** pending lines are written when they are this many bytes, or at the end of the current turn */
const BATCH = 1 << 16

export class FileIdStore implements IdStore {
  readonly spill: FileSpill
  readonly #path: string
  readonly #journal: LineFile
  readonly #files: Files
  readonly #batch = new LineBatch()
  /** lines that a failed write left behind */
  readonly #pending: Buffer[] = []
  #writesSoon = false
  #unsynced = false
  /** a sync failed: what the system holds of the journal is not believed any more */
  #doubtful = false
  #state: IdState | null = null
  #checkpointSize = 0
  #syncing: Promise<void> | null = null
  #following: Promise<void> | null = null
  #afterSync: (() => void) | null = null
  #checkpointing: Promise<void> | null = null
  /** after a failed one, the journal grows at least to this before the next */
  #notBefore = 0
  /** counts checkpoints begun: one begun in pieces is given up when a newer one was made at once */
  #generation = 0

  constructor(path: string, files: Files = realFiles) {
    this.#path = path
    this.#files = files
    this.#journal = new LineFile(`${path}.journal`, files)
    this.spill = new FileSpill(`${path}.released`, files)
  }

  load(state: IdState): void {
    this.#state = state
    if (this.#files.exists(this.#path)) {
      this.#checkpointSize = this.#files.size(this.#path)
      readCheckpoint(this.#path, this.#files, state)
    }
    state.released.settle()
    let lost = 0
    this.#journal.read(value => {
      const change = changeFrom(value)
      if (change) state.apply(change)
      else lost++
    })
    // the last process may have been killed before its sync: nobody gets an answer before these lines are on flash
    this.#unsynced = this.#journal.length > 0
    if (lost > 0) {
      this.#journal.keepAside()
      state.lose(lost)
    }
    state.released.settle()
  }

  append(change: IdChange): void {
    this.#batch.add(changeText(change))
    this.#unsynced = true
    if (this.#batch.used >= BATCH) this.#tryWrite()
    else if (!this.#writesSoon) {
      this.#writesSoon = true
      queueMicrotask(() => {
        this.#writesSoon = false
        this.#tryWrite()
      })
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

  checkpoint(): Promise<void> {
    if (this.#checkpointing) return this.#checkpointing
    const { length } = this.#journal
    if (length < Math.max(SMALL_JOURNAL, this.#checkpointSize, this.#notBefore)) return Promise.resolve()
    this.#checkpointing = this.#checkpointInPieces(this.#state!)
      .catch(error => {
        this.#notBefore = this.#journal.length + SMALL_JOURNAL
        throw error
      })
      .finally(() => {
        this.#checkpointing = null
      })
    return this.#checkpointing
  }

  checkpointNow(): void {
    const state = this.#state!
    this.#generation++
    this.#files.mkdir(dirname(this.#path))
    state.released.flush()
    const beside = this.#open()
    try {
      for (const piece of checkpointPieces(state)) beside.write(piece)
      this.#files.syncNow(beside.fd)
    } catch (error) {
      beside.giveUp()
      throw error
    }
    beside.moveInPlace()
    this.#checkpointSize = beside.size
    // everything appended is in the file now, what could not be written before too
    this.#batch.take()
    this.#pending.length = 0
    this.#unsynced = this.#doubtful = false
    this.#journal.replace(Buffer.alloc(0))
    state.released.compact()
  }

  close(): void {
    this.#journal.close()
    this.spill.close()
  }

  async #checkpointInPieces(state: IdState): Promise<void> {
    const generation = ++this.#generation
    const covered = this.#journal.length
    state.released.flush()
    const { refills } = state.released
    const beside = this.#open()
    try {
      for (const piece of checkpointPieces(state)) {
        beside.write(piece)
        await turn()
        if (generation !== this.#generation) return beside.close()
      }
      await this.#files.sync(beside.fd)
    } catch (error) {
      beside.giveUp()
      throw error
    }
    await this.#betweenSyncs(() => {
      if (generation !== this.#generation) return beside.close()
      beside.moveInPlace()
      this.#checkpointSize = beside.size
      this.#journal.dropUpTo(covered)
      if (state.released.refills === refills) state.released.compact()
    })
  }

  /** Runs `action` when no sync is at work, which would lose its descriptor; rejects with what it throws. */
  #betweenSyncs(action: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const run = (): void => {
        try {
          resolve(action())
        } catch (error) {
          reject(error)
        }
      }
      if (this.#syncing) this.#afterSync = run
      else run()
    })
  }

  /** The new checkpoint, beside the old one until it is whole. */
  #open() {
    const files = this.#files
    const path = `${this.#path}.tmp`
    const fd = files.open(path, 'w')
    let open = true
    const close = (): void => {
      if (open) files.close(fd)
      open = false
    }
    return {
      fd,
      size: 0,
      write(piece: string): void {
        const bytes = Buffer.from(piece)
        files.write(fd, bytes)
        this.size += bytes.length
      },
      close,
      giveUp: (): void => {
        close()
        files.remove(path)
      },
      moveInPlace: (): void => {
        close()
        files.rename(path, this.#path)
        files.syncDir(dirname(this.#path))
      },
    }
  }

  #tryWrite(): void {
    try {
      this.#write()
    } catch {
      // stays pending; commit() tries again and tells its caller
    }
  }

  #write(): void {
    // a failed write may come again, so its lines need memory of their own
    if (this.#batch.used > 0) this.#pending.push(Buffer.from(this.#batch.take()))
    while (this.#pending.length > 0) {
      this.#journal.write(this.#pending[0]!)
      this.#pending.shift()
    }
  }

  #sync(): Promise<void> {
    const run = async (): Promise<void> => {
      if (this.#doubtful) this.checkpointNow()
      this.#write()
      this.#unsynced = false
      try {
        await this.#journal.sync()
      } catch (error) {
        this.#unsynced = this.#doubtful = true
        throw error
      }
    }
    this.#syncing = run().finally(() => {
      this.#syncing = null
      const after = this.#afterSync
      this.#afterSync = null
      after?.()
    })
    return this.#syncing
  }
}
