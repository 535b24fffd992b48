// The first start on a restored backup: record numbers and TIDs start after any that can have been used since, and the mark is
// removed only when that is on the medium.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Restored } from '../../../src/gateway/start-from-backup'
import { TidCounters } from '../../../src/gateway/uplink/tids'
import { silentLogger } from '../../../src/lib/logger'
import { FlashLog } from '../../../src/log'
import { MemFiles } from '../log/memfiles'

const MARK = '/data/restored.json'

function files(marked: boolean): MemFiles {
  const made = new MemFiles()
  if (marked) made.close(made.open(MARK, 'w'))
  return made
}

test('after a restore, record numbers and TIDs start after any that can have been used; without one they do not', async () => {
  for (const marked of [true, false]) {
    const disk = files(marked)
    const restored = new Restored('/data', disk, silentLogger)
    const log = await FlashLog.open({ dir: '/data/log', files: disk, ...restored.log })
    assert.equal(log.lastSeq > 2 ** 40, marked)
    log.appendCounter('tid:up:7', 9)
    await restored.begin(log, null)
    const tids = new TidCounters('up', log, silentLogger, () => undefined)
    if (marked) for (const aid of [7, 8]) assert.ok(tids.first(aid) > 199, `${aid}`)
    else assert.deepEqual([tids.first(7), tids.first(8)], [9, 1])
    assert.equal(disk.exists(MARK), false)
    await log.close()
  }
})

test('the restore mark stays while the log cannot be written', async () => {
  const disk = files(true)
  const restored = new Restored('/data', disk, silentLogger)
  const log = await FlashLog.open({ dir: '/data/log', files: disk, ...restored.log })
  disk.gate = operation => {
    if (operation === 'write') throw Object.assign(new Error('full'), { code: 'ENOSPC' })
  }
  await restored.begin(log, null)
  assert.equal(disk.exists(MARK), true)
  disk.gate = () => undefined
  await log.flush()
  await log.close()
})
