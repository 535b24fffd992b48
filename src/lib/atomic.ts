// Replaces a file so that after any crash either the old or the new content exists, never a mixture and never nothing:
// write a temporary file, sync, rename, sync the folder (R6). The old file stays when any step fails; the error is the
// system's. Two processes that replace the same file use different temporary names; the later rename wins.
import { dirname } from 'node:path'
import { type Files, realFiles } from './files'

export function atomicWrite(path: string, content: string | Uint8Array, files: Files = realFiles): void {
  const data = typeof content === 'string' ? Buffer.from(content, 'utf8') : content
  const temporary = `${path}.${process.pid}.tmp`
  const fd = files.open(temporary, 'w')
  try {
    files.write(fd, data)
    files.syncNow(fd)
  } catch (error) {
    files.close(fd)
    files.remove(temporary)
    throw error
  }
  files.close(fd)
  files.rename(temporary, path)
  files.syncDir(dirname(path))
}
