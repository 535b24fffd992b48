// Whether a folder can be written, found out by writing.
import { join } from 'node:path'
import { errno, OsError } from './errors'
import { type Files, realFiles } from './files'

/** Makes the folder where it is missing. Throws DATA_DIR. */
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
