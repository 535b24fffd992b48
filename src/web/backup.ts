// Backup over HTTP: the output of `os-node backup` as a download. It is generated while it is read, piece by piece, so
// that a slow reader uses neither memory nor disk; one at a time. Restore: the pieces are stored next to the state and
// then all of it is checked; the gateway stops, and its next start uses the state, as after `os-node restore`. Errors:
// TOO_MANY_JOBS, BODY_TOO_LARGE for a backup beyond 1 GiB, and those of src/backup; an incomplete upload is removed
// then.
import { dirname } from 'node:path'
import { side } from '../backup/restore-progress'
import { inUpdateFile } from '../commands/update-file'
import { sourceOf, targetOf } from '../commands/verbs/backup'
import type { ConfigStore } from '../config'
import { asOsError, errno, OsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import { yieldToLoop } from '../lib/yield'
import { bytesText } from '../units/display'
import type { Restore, WriteBackup } from './context'

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
  let size = 0
  let busy = false
  const forget = (): void => {
    size = 0
    realFiles.remove(file)
  }
  return {
    piece(offset, bytes) {
      if (busy) throw new OsError('TOO_MANY_JOBS', 'a backup is being restored')
      if (offset !== 0 && offset !== size) throw new OsError('BAD_REQUEST', `the next piece begins at ${size}`)
      try {
        refuseLarge(offset + bytes.length)
        realFiles.mkdir(dirname(file))
        const fd = realFiles.open(file, offset === 0 ? 'w' : 'a')
        try {
          realFiles.write(fd, bytes)
        } finally {
          realFiles.close(fd)
        }
      } catch (thrown) {
        forget()
        throw asOsError(thrown, errno(thrown) === 'ENOSPC' ? 'DISK_FULL' : 'STORAGE')
      }
      return (size = offset + bytes.length)
    },
    async start(expected, passphrase) {
      if (busy) throw new OsError('TOO_MANY_JOBS', 'a backup is being restored')
      if (expected !== size) throw new OsError('BAD_REQUEST', `${size} bytes were uploaded, not ${expected}`)
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
        forget()
      }
    },
  }
}
