// All access of the host sources to the machine, in one place, so that tests can use a separate file tree and never
// wait.
import { openSync, readFileSync, readSync } from 'node:fs'
import { OsError, outOfFiles } from '../../src/lib/errors'
import { sleep, systemTimers } from '../../src/lib/timers'
import type { DriverContext } from '../../src/links/contracts'
import { type BlockingFiles, blockingFiles, type Space } from './blocking-files'

export interface HostEnvironment extends DriverContext {
  /** roots of the trees, without a trailing slash */
  sys: string
  proc: string
  files: BlockingFiles
  sleep(ms: number): Promise<void>
  space(path: string): Promise<Space>
}

export const hostEnvironment = (
  context: DriverContext,
  roots: { sys?: string; proc?: string } = {},
): HostEnvironment => ({
  ...context,
  sys: roots.sys ?? '/sys',
  proc: roots.proc ?? '/proc',
  files: blockingFiles,
  sleep: ms => sleep(systemTimers, ms),
  space: path => blockingFiles.space(path),
})

/** files of /proc stay open: the kernel makes the text again at each read from offset 0 */
const kept = new Map<string, number>()
const room = Buffer.alloc(65_536)

function keptText(path: string): string {
  const fd = kept.get(path) ?? openSync(path, 'r')
  kept.set(path, fd)
  let size = 0
  // a file with many records is returned page by page
  for (let got = -1; got !== 0; size += got) got = readSync(fd, room, size, room.length - size, size)
  return size < room.length ? room.toString('latin1', 0, size) : readFileSync(path, 'latin1')
}

/**
 * The text of a short /proc file. Read synchronously: the kernel makes it in microseconds and never waits for hardware.
 * Throws NOT_FOUND with the reason if this machine lacks the file.
 */
export function procText({ proc }: HostEnvironment, file: string): string {
  try {
    return proc === '/proc' ? keptText(`${proc}/${file}`) : readFileSync(`${proc}/${file}`, 'latin1')
  } catch (cause) {
    const out = outOfFiles(cause)
    if (out) throw out
    throw new OsError('NOT_FOUND', `${proc}/${file} cannot be read on this machine`, { cause })
  }
}
