// Everything the sources of this machine touch, in one place, so that tests lay out a tree of their own and never wait.
import { readFileSync } from 'node:fs'
import { OsError, outOfFiles } from '../../src/lib/errors'
import type { DriverContext } from '../../src/links/contracts'
import { type SlowFiles, type Space, slowFiles } from './slow'

export interface HostEnvironment extends DriverContext {
  /** roots of the trees, without a slash at the end */
  sys: string
  proc: string
  files: SlowFiles
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
  files: slowFiles,
  sleep: ms => new Promise(resolve => setTimeout(resolve, ms)),
  space: path => slowFiles.space(path),
})

/**
 * A short file of /proc. Read at once: the kernel makes it in microseconds and never waits for hardware. Throws NOT_FOUND
 * with the reason when this machine has none.
 */
export function procText({ proc }: HostEnvironment, file: string): string {
  try {
    return readFileSync(`${proc}/${file}`, 'latin1')
  } catch (cause) {
    const out = outOfFiles(cause)
    if (out) throw out
    throw new OsError('NOT_FOUND', `${proc}/${file} cannot be read on this machine`, { cause })
  }
}
