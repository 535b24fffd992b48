// Makes sure of a folder before anything relies on it: made when missing, and something can be written there.
import { join } from 'node:path'
import { errno, OsError } from './errors'
import { type Files, realFiles } from './files'

/** Throws DATA_DIR. */
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
