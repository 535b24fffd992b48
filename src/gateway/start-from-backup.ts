// The first start on the state of a backup (`restored.json` in the data directory). This gateway does not know what it did
// after the backup, so unique numbers must not continue from there: log sequence numbers, uplink TIDs and assigned ids start
// after every number that may have been used, and templates of senders are requested again instead of restored from the log.
// The mark is removed once all of that is on flash; an interrupted start repeats it.
//
// Errors: while the disk refuses writes, or the ids cannot be read, the mark stays, and the next start skips numbers again.
import { join } from 'node:path'
import { RESTORED_FILE } from '../backup/restore-progress'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { FlashLog } from '../log'
import type { DeviceIds } from './ids'
import { skipRestoredTids } from './uplink/tids'

/** four months at 100,000 records a second; allows 8,000 restores */
const SKIPPED_SEQS = 2 ** 40

export class Restored {
  readonly is: boolean
  /** for the log */
  readonly log: { skipSeqs?: number }
  readonly #mark: string
  readonly #files: Files
  readonly #logger: Logger

  constructor(dataDir: string, files: Files, logger: Logger) {
    this.#mark = join(dataDir, RESTORED_FILE)
    this.#files = files
    this.#logger = logger
    this.is = files.exists(this.#mark)
    this.log = this.is ? { skipSeqs: SKIPPED_SEQS } : {}
  }

  /** Skips the TIDs, starts the ids, and removes the mark. Never rejects. */
  async begin(log: FlashLog, ids: DeviceIds | null): Promise<void> {
    if (this.is) skipRestoredTids(log)
    await Promise.all([ids?.start(), this.is && log.flush()])
    if (!this.is || log.failure || ids?.sound === false) return
    try {
      this.#files.remove(this.#mark)
      this.#logger.info(
        'the state of a backup has started: record numbers, TIDs and ids continue after those it may have used',
      )
    } catch (error) {
      this.#logger.warn(`${this.#mark} could not be removed: ${asOsError(error).message}`)
    }
  }
}
