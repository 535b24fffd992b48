// Backup over HTTP: the output of `os-node backup` as a download. It is generated while it is read, piece by piece, so
// that a slow reader uses neither memory nor disk; one at a time. Restore: the pieces are stored next to the state and
// then all of it is checked; the gateway stops, and its next start uses the state, as after `os-node restore`. Errors:
// TOO_MANY_JOBS, BODY_TOO_LARGE for a backup beyond 1 GiB, and those of src/backup; an incomplete upload is removed
// then.
import { side } from '../backup/restore-progress'
import { inUpdateFile } from '../commands/update-file'
import { sourceOf, targetOf } from '../commands/verbs/backup'
import type { ConfigStore } from '../config'
import { OsError } from '../lib/errors'
import { yieldToLoop } from '../lib/yield'
import { bytesText } from '../units/display'
import type { Restore, WriteBackup } from './context'
import { Upload } from './upload'

/** most bytes of a backup, in both directions */
const MOST = 2 ** 30
const refuseLarge = (bytes: number): void => {
  if (bytes > MOST)
    throw new OsError('BODY_TOO_LARGE', `a backup over HTTP has ${bytesText(MOST)} at most`, {
      hint: 'os-node backup and os-node restore have no such bound',
    })
}

/** The backup part of the WebContext. */
export function backupWriter(config: ConfigStore, version: string): WriteBackup {
  let busy = false
  return async (passphrase, sink) => {
    if (busy) throw new OsError('TOO_MANY_JOBS', 'another backup is being written')
    busy = true
    try {
      const source = sourceOf(config, version, passphrase)
      let sent = 0
      const bounded: typeof sink = bytes => {
        refuseLarge((sent += bytes.length))
        return sink(bytes)
      }
      return await inUpdateFile('E_BACKUP', ({ backup }) => backup.writeBackup(source, bounded))
    } finally {
      busy = false
    }
  }
}

/** The restore part of the WebContext; `stop` ends the gateway after the answer was sent. */
export function backupRestorer(config: ConfigStore, stop: () => void): Restore {
  const file = side(config.dataDir, 'upload')
  const upload = new Upload(file, refuseLarge)
  let busy = false
  const idle = (): void => {
    if (busy) throw new OsError('TOO_MANY_JOBS', 'a backup is being restored')
  }
  return {
    piece(offset, bytes) {
      idle()
      return upload.piece(offset, bytes)
    },
    async start(expected, passphrase) {
      idle()
      upload.complete(expected)
      busy = true
      try {
        const result = await inUpdateFile('E_BACKUP', ({ backup }) =>
          backup.prepareRestore(targetOf(config, file, passphrase)),
        )
        void yieldToLoop().then(stop)
        return result
      } catch (error) {
        busy = false
        throw error
      } finally {
        upload.remove()
      }
    },
  }
}
