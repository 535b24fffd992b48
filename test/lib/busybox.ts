// The programs of the image: its scripts find busybox behind most names. They are tried here with this machine's.
// Needs: rigtools
import { execFileSync } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from './gateway'

/** Runs a script of the image with busybox's programs only. Throws where it ends with an error. */
export function runOnBusybox(script: string, ...args: string[]): void {
  const dir = tempDir()
  const busybox = execFileSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' }).trim()
  for (const name of execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n'))
    symlinkSync(busybox, join(dir, name))
  execFileSync('/bin/sh', [script, ...args], { stdio: 'pipe', env: { PATH: dir } })
}
