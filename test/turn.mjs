// Which part of what runs in turns a quarter run takes (OS_NODE_LONG=quarter): by the hash of the commit, so that the same commit is tested the same
// way on any day and machine, and the next one differently. Without git or a commit it is always the first part.
import { spawnSync } from 'node:child_process'

export function turnOf(root) {
  const { stdout } = spawnSync('git', ['rev-parse', '--verify', 'HEAD'], { cwd: root, encoding: 'utf8' })
  return Number.parseInt(stdout?.slice(0, 8), 16) || 0
}
