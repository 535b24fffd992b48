// A build of a commit in a folder of its own, with the packages that are installed in this one.
// Needs: git
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './gateway'

/** Extracts `commit` to the empty folder `fresh`, in the file system of this one, and builds its dist/ there. */
export function buildCommit(commit: string, fresh: string, env: NodeJS.ProcessEnv = {}): void {
  const run = (program: string, args: string[], more: object = {}) =>
    execFileSync(program, args, { cwd: root, stdio: ['pipe', 'pipe', 'inherit'], maxBuffer: 1 << 28, ...more })
  run('tar', ['-x', '-C', fresh], { input: run('git', ['archive', commit]) })
  // the list of packages has those below its own folder, by links, which must be in one file system
  for (const name of ['node_modules', '.cache'].filter(name => existsSync(join(root, name))))
    run('cp', ['-al', name, fresh])
  run(process.execPath, ['build.mjs', '--quiet', '--no-types'], { cwd: fresh, env: { ...process.env, ...env } })
}
