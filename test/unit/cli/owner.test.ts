import assert from 'node:assert/strict'
import { chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { actAsOwner } from '../../../src/cli/owner'
import { tempDir } from '../services/fake'

/** A process that records which user it becomes. */
function processOf(uid: number, known = true) {
  const became: unknown[] = []
  const system = {
    getuid: () => uid,
    initgroups: (user: number, group: number) => {
      if (!known) throw new Error('no such user')
      became.push(['initgroups', user, group])
    },
    setgroups: (groups: number[]) => became.push(['setgroups', ...groups]),
    setgid: (group: number) => became.push(['setgid', group]),
    setuid: (user: number) => became.push(['setuid', user]),
  }
  return { system: system as unknown as NodeJS.Process, became }
}

test('root switches to the owner of the files it will change, group first', {
  skip: process.getuid?.() !== 0 && 'needs root to give a file away',
}, t => {
  const dir = tempDir(t)
  const config = join(dir, 'Config.json')
  writeFileSync(config, '{}')
  chownSync(config, 1234, 1235)
  const become = (uid: number, paths: string[], known?: boolean): unknown[] => {
    const { system, became } = processOf(uid, known)
    actAsOwner(paths, system)
    return became
  }
  const nowhere = join(dir, 'nowhere')
  const drop = [
    ['setgid', 1235],
    ['setuid', 1234],
  ]
  assert.deepEqual(become(0, [nowhere, config]), [['initgroups', 1234, 1235], ...drop])
  assert.deepEqual(become(0, [config], false), [['setgroups', 1235], ...drop])
  // another user, files of root (the first existing file counts), no file
  assert.deepEqual(become(1000, [config]), [])
  assert.deepEqual(become(0, [dir, config]), [])
  assert.deepEqual(become(0, [nowhere]), [])

  const { system } = processOf(0)
  const refused = (): never => {
    throw new Error('io_uring may be enabled')
  }
  Object.assign(system, { initgroups: refused, setgroups: refused, setgid: refused, setuid: refused })
  assert.throws(() => actAsOwner([config], system), { code: 'FORBIDDEN', message: /io_uring/, hint: /'#1234'/ })
})
