// Runs scripts of the image with this machine's busybox, since most programs of the image are busybox.
// Needs: rigtools
import { execFileSync } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from './gateway'

/** Runs a script of the image with busybox's programs only. Throws if it fails. */
export function runOnBusybox(script: string, ...args: string[]): void {
  runWith({}, script, ...args)
}

/** Like runOnBusybox(); `instead`: scripts that replace some programs and call `busybox NAME` for the real ones. */
export function runWith(instead: Readonly<Record<string, string>>, script: string, ...args: string[]): void {
  const dir = tempDir()
  const busybox = execFileSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' }).trim()
  for (const name of execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n'))
    if (!(name in instead)) symlinkSync(busybox, join(dir, name))
  for (const [name, text] of Object.entries(instead)) writeFileSync(join(dir, name), text, { mode: 0o700 })
  execFileSync('/bin/sh', [script, ...args], { stdio: 'pipe', env: { PATH: dir } })
}
