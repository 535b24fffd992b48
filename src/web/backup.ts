// A backup over HTTP: what `os-node backup` writes, as a download. It is made while it is read, piece by piece, so that a reader that
// is slow holds neither memory nor the disk; one at a time. Putting one back: its pieces are written beside the state, then all of it
// is checked, and the gateway stops; its next start takes the state over, as after `os-node restore`.
// Errors: TOO_MANY_JOBS, BODY_TOO_LARGE for a backup beyond 1 GiB, and those of src/backup; nothing of an upload is left then.
import { dirname } from 'node:path'
import { side } from '../backup/settle'
import { inUpdateFile } from '../commands/update-file'
import { sourceOf } from '../commands/verbs/backup'
import type { ConfigStore } from '../config'
import { systemClock } from '../lib/clock'
import { asOsError, errno, OsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import { turn } from '../lib/yield'
import type { Restore, WriteBackup } from './context'

/** bytes of a backup, in both directions */
const MOST = 2 ** 30
const refuseLarge = (bytes: number): void => {
  if (bytes > MOST)
    throw new OsError('BODY_TOO_LARGE', `a backup over HTTP has ${MOST} bytes at most`, {
      hint: 'os-node backup and os-node restore have no such bound',
    })
}

/** What context.ts has of it. */
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

/** What context.ts has of it; `stop` ends the gateway once the answer is out. */
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
      const place = { file, dataDir: config.dataDir, configPath: config.path, now: systemClock.wall(), passphrase }
      try {
        const result = await inUpdateFile('E_BACKUP', ({ backup }) => backup.prepareRestore(place))
        void turn().then(stop)
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
