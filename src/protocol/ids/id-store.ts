// Stores the allocator's state: `data/id_allocation.json` and a journal of later changes, `<file>.journal`.
//
// Errors: a failed write (full disk) keeps its lines in memory, and commit() rejects until they are written; a reply that
// waits for commit() is not sent. A torn last line is truncated. A damaged line elsewhere is skipped, a copy of the journal
// is kept as `.damaged`, and the state is marked, so that no id whose owner may be lost is assigned again. After a failed
// sync it is unknown which part of the journal is on flash: the file is rewritten before the next commit. An unreadable file
// is an error (STORAGE): without it every id could be assigned twice, so none is assigned.
//
// The write order makes a crash at any point harmless: the new JSON file is synced and replaces the old one, and only then
// are the lines contained in both removed from the journal. Applying a journal again changes nothing. stop() does this
// immediately; when the journal is as long as the file, it is done in pieces between other work, and changes made meanwhile
// stay in the journal. Freed ids in `<file>.released`, written by older versions, are read once.
import { dirname } from 'node:path'
import { type Files, realFiles } from '../../lib/files'
import { SerialQueue } from '../../lib/serial-queue'
import { nextTurn } from '../../lib/yield'
import { changeFrom, changeText, isId } from './change'
import { checkpointPieces, readCheckpoint } from './checkpoint'
import { LineFile, linesOf } from './linefile'
import type { IdChange, IdState } from './state'

export interface IdStore {
  /**
   * Fills a new state with the stored data, in short steps, and uses that state from then on. Throws STORAGE if it cannot be
   * read.
   */
  load(state: IdState): Iterator<void, void>
  /** Appends a change; it is on flash when a later commit() settles. Does not throw. */
  append(change: IdChange): void
  /** Settles when every earlier change is on flash; rejects if it could not be written. */
  commit(): Promise<void>
  /** Allows the store to rewrite the complete state in the background; rejects if that failed, and nothing is lost then. */
  checkpoint(): Promise<void>
  /** Rewrites the state synchronously. Throws. */
  checkpointNow(): void
  close(): void
}

/** a smaller journal needs no checkpoint */
const SMALL_JOURNAL = 256 * 1024
/** pending lines are written when they are this many bytes, or at the end of the current turn */
const BATCH = 1 << 16

export class FileIdStore implements IdStore {
  readonly #path: string
  readonly #journal: LineFile
  readonly #files: Files
  /** changes as JSON, and their total length */
  #batch: string[] = []
  #batched = 0
  /** lines of a failed write */
  readonly #pending: Buffer[] = []
  #writesSoon = false
  #unsynced = false
  /** a sync failed: the journal content is no longer trusted */
  #doubtful = false
  #state: IdState | null = null
  #checkpointSize = 0
  /** settles when no sync is running */
  readonly #jobs = new SerialQueue()
  /** the newest commit, and the one that has not started */
  #syncing: Promise<void> = Promise.resolve()
  #following: Promise<void> | null = null
  #checkpointing: Promise<void> | null = null
  /** the journal grows at least to this size before the next checkpoint */
  #notBefore = SMALL_JOURNAL
  /** files of an older version were read: the next checkpoint replaces them, even if the journal is short */
  #old = false
  /** counts checkpoints: a checkpoint in pieces is abandoned when a newer one begins */
  #generation = 0

  readonly #restoredAt: (() => number) | undefined

  /** `restoredAt`: the files were restored from a backup; returns UNIX seconds now. */
  constructor(path: string, files: Files = realFiles, restoredAt?: () => number) {
    this.#path = path
    this.#files = files
    this.#restoredAt = restoredAt
    this.#journal = new LineFile(`${path}.journal`, files)
  }

  *load(state: IdState): Generator<void, void> {
    if (this.#files.exists(this.#path)) {
      this.#checkpointSize = this.#files.size(this.#path)
      yield* readCheckpoint(this.#path, this.#files, state)
    }
    // after damage, an old list of freed ids is not trusted
    if (!state.damaged) yield* this.#readSpill(state)
    let lost = 0
    for (const value of this.#journal.read()) {
      const change = changeFrom(value)
      if (change) state.apply(change)
      else lost++
      yield
    }
    // the last process may have been killed before its sync: no answer is sent before these lines are on flash
    this.#unsynced = this.#journal.length > 0
    if (lost > 0) {
      this.#journal.keepDamaged()
      state.lose(lost)
    }
    this.#state = state
    if (this.#restoredAt) state.restored(this.#restoredAt())
    this.#old = this.#files.exists(this.#spill) || this.#restoredAt !== undefined
    if (this.#old) this.#notBefore = 0
  }

  append(change: IdChange): void {
    const text = changeText(change)
    this.#batch.push(text)
    // including the overhead of a line
    this.#batched += text.length + 10
    this.#unsynced = true
    if (this.#batched >= BATCH) this.#tryWrite()
    else if (!this.#writesSoon) {
      this.#writesSoon = true
      queueMicrotask(() => {
        this.#writesSoon = false
        this.#tryWrite()
      })
    }
  }

  commit(): Promise<void> {
    if (!this.#unsynced) return this.#syncing
    this.#tryWrite()
    this.#following ??= this.#syncing = this.#jobs.run(() => {
      this.#following = null
      return this.#sync()
    })
    return this.#following
  }

  checkpoint(): Promise<void> {
    if (this.#checkpointing) return this.#checkpointing
    const { length } = this.#journal
    if (length < this.#notBefore || (length < this.#checkpointSize && !this.#old)) return Promise.resolve()
    this.#checkpointing = this.#rewrite(action => this.#jobs.run(action))
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
    this.#generation++
    const next = this.#begin()
    try {
      for (const piece of checkpointPieces(this.#state!)) next.write(piece)
      this.#files.syncNow(next.fd)
    } catch (error) {
      next.giveUp()
      throw error
    }
    next.take(this.#journal.length)
    // the file contains everything appended, including lines of failed writes
    this.#takeBatch()
    this.#pending.length = 0
    this.#unsynced = false
  }

  close(): void {
    this.#journal.close()
  }

  get #spill(): string {
    return `${this.#path}.released`
  }

  *#readSpill(state: IdState): Generator<void, void> {
    // ids of a damaged line are in no list, as after any loss: they are found when all others are used up
    for (const ids of new LineFile(this.#spill, this.#files).read()) {
      if (Array.isArray(ids)) for (const id of ids) if (isId(id)) state.release(id)
      yield
    }
  }

  /** Writes the file in pieces; `alone` runs the final step while no sync uses the journal's descriptor. */
  async #rewrite(alone: (action: () => void) => Promise<void>): Promise<void> {
    const generation = ++this.#generation
    const covered = this.#journal.length
    const next = this.#begin()
    try {
      for (const piece of checkpointPieces(this.#state!)) {
        next.write(piece)
        await nextTurn()
        if (generation !== this.#generation) return next.close()
      }
      await this.#files.sync(next.fd)
    } catch (error) {
      if (generation === this.#generation) next.giveUp()
      else next.close()
      throw error
    }
    await alone(() => (generation === this.#generation ? next.take(covered) : next.close()))
  }

  /** The next file, separate from the old one until it is complete. */
  #begin() {
    const files = this.#files
    const path = `${this.#path}.tmp`
    files.mkdir(dirname(path))
    const fd = files.open(path, 'w')
    let open = true
    let size = 0
    const close = (): void => {
      if (open) files.close(fd)
      open = false
    }
    return {
      fd,
      write: (piece: string): void => {
        const bytes = Buffer.from(piece)
        files.write(fd, bytes)
        size += bytes.length
      },
      close,
      giveUp: (): void => {
        close()
        files.remove(path)
      },
      /** Replaces the old file and the first `covered` bytes of the journal. */
      take: (covered: number): void => {
        close()
        files.rename(path, this.#path)
        files.syncDir(dirname(path))
        this.#checkpointSize = size
        this.#notBefore = SMALL_JOURNAL
        this.#journal.dropUpTo(covered)
        this.#doubtful = false
        if (this.#old) files.remove(this.#spill)
        this.#old = false
      },
    }
  }

  #tryWrite(): void {
    try {
      this.#write()
    } catch {
      // stays pending; commit() retries and reports the error to its caller
    }
  }

  #write(): void {
    if (this.#doubtful) return
    if (this.#batched > 0) this.#pending.push(linesOf(this.#takeBatch()))
    while (this.#pending.length > 0) {
      this.#journal.write(this.#pending[0]!)
      this.#pending.shift()
    }
  }

  #takeBatch(): string[] {
    const batch = this.#batch
    this.#batch = []
    this.#batched = 0
    return batch
  }

  async #sync(): Promise<void> {
    // later changes wait for the next commit
    if (this.#doubtful) await this.#rewrite(async action => action())
    this.#write()
    this.#unsynced = false
    try {
      await this.#journal.sync()
    } catch (error) {
      this.#unsynced = this.#doubtful = true
      throw error
    }
  }
}
