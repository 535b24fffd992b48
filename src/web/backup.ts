// A backup over HTTP: what `os-node backup` writes, as a download. It is made while it is read, piece by piece, so that a reader that
// is slow holds neither memory nor the disk; one at a time. Errors: TOO_MANY_JOBS, and those of src/backup.
import { inUpdateFile } from '../commands/update-file'
import { sourceOf } from '../commands/verbs/backup'
import type { ConfigStore } from '../config'
import { OsError } from '../lib/errors'
import type { WriteBackup } from './context'

/** What context.ts has of it. */
export function backupWriter(config: ConfigStore, version: string): WriteBackup {
  let busy = false
  return async (passphrase, sink) => {
    if (busy) throw new OsError('TOO_MANY_JOBS', 'another backup is being written')
    busy = true
    try {
      const source = sourceOf(config, version, passphrase)
      return await inUpdateFile('E_BACKUP', ({ backup }) => backup.writeBackup(source, sink))
    } finally {
      busy = false
    }
  }
}
