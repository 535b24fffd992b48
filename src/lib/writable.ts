// Errors of a disk that cannot be written or read now but may recover: full, read-only, no permission, broken, or this
// process has no descriptor left. A gateway then continues (R30); any other error (a file in place of a folder) is a
// mistake in the configuration.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { errno, OsError, orElse } from './errors'
import { type Files, realFiles } from './files'

const FAULTS: Record<string, string> = {
  ENOSPC: 'disk full',
  EDQUOT: 'disk quota reached',
  EROFS: 'file system is read-only',
  EACCES: 'no permission',
  EPERM: 'no permission',
  EIO: 'input/output error',
  EMFILE: 'too many open files',
  ENFILE: 'too many open files in the system',
}

/** Describes the disk's problem, with the code; undefined: not a disk problem. Also checks causes. */
export function diskFault(error: unknown): string | undefined {
  const code = errno(error)
  const text = code && FAULTS[code]
  if (text) return `${text} (${code})`
  return error instanceof Error && error.cause !== undefined ? diskFault(error.cause) : undefined
}

/** Advice for such a problem. */
export const mendDisk = 'free space, mount it writable, or give this user the right to write; no restart is needed'

/** Ensures that a folder exists (it is created if missing) and is writable. Throws DATA_DIR. */
export function writableDir(dir: string, files: Files = realFiles): void {
  try {
    files.mkdir(dir)
    const probe = join(dir, '.writable')
    files.close(files.open(probe, 'w'))
    files.remove(probe)
  } catch (cause) {
    throw new OsError('DATA_DIR', `${dir} cannot be written (${errno(cause) ?? 'unknown reason'})`, { cause })
  }
}

/** The group of a file: its name, or its number if it has no name; undefined if it cannot be read. */
export const groupOf = (path: string): string | undefined =>
  orElse(undefined, () => {
    const gid = String(statSync(path).gid)
    const groups = orElse('', () => readFileSync('/etc/group', 'utf8')).split('\n')
    return groups.find(line => line.split(':')[2] === gid)?.split(':')[0] ?? gid
  })
