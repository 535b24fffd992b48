// The first start on the state of a backup (`restored.json` in the data directory). What this gateway did after the backup it does not
// know, so nothing that must be unique goes on where the backup ends: sequence numbers of the log, TIDs of uplinks and ids that are
// handed out begin behind any that can have been used, and templates of senders are requested anew instead of being made from
// the log. The mark goes once all of that is on the medium; a start that was cut off before does it again.
//
// What fails: while the disk refuses, or the ids cannot be read, the mark stays, and the next start skips once more.
import { join } from 'node:path'
import { RESTORED_FILE } from '../backup/settle'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { FlashLog } from '../log'
import type { DeviceIds } from './ids'
import { skipRestoredTids } from './uplink/tids'

/** at 100,000 records a second four months; there is room for 8,000 restores */
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
        'the state of a backup has started: record numbers, TIDs and ids go on behind those it may have used',
      )
    } catch (error) {
      this.#logger.warn(`${this.#mark} could not be removed: ${asOsError(error).message}`)
    }
  }
}
