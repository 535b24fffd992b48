import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TidCounters } from '../../../../src/gateway/uplink/tids'
import { silentLogger } from '../../../../src/lib/logger'

function fixture(kept?: number) {
  const counters = new Map<string, number>(kept === undefined ? [] : [['tid:up:7', kept]])
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = []
  const log = {
    counter: (name: string) => counters.get(name),
    appendCounter: (name: string, value: number) => {
      counters.set(name, value)
      return 1
    },
    committed: () => new Promise<void>((resolve, reject) => waiting.push({ resolve, reject })),
    degraded: false,
  }
  let changes = 0
  const tids = new TidCounters(
    'up',
    log,
    silentLogger,
    () => changes++,
    () => 0.5,
  )
  return { tids, counters, waiting, log, changes: () => changes }
}
const userAt = (nextTid: number) => ({
  aid: 7,
  nextTid,
  skipTids(to: number) {
    this.nextTid = Math.max(this.nextTid, to)
  },
})
const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

test('no frame uses a new template before the counter is on flash; one commit serves several templates', async () => {
  const { tids, counters, waiting, changes } = fixture()
  const user = userAt(tids.first(7))
  assert.equal(tids.ready(user), false)
  assert.equal(tids.ready(user), false)
  assert.equal(waiting.length, 1)
  waiting[0]!.resolve()
  await settled()
  assert.equal(changes(), 1)
  for (; user.nextTid < counters.get('tid:up:7')!; user.nextTid++) assert.equal(tids.ready(user), true)
  assert.equal(tids.ready(user), false, 'the next run would start here')
  assert.equal(waiting.length, 2, 'and a further counter is requested')
  tids.keep([user])
  assert.equal(counters.get('tid:up:7'), user.nextTid)
})

test('a failed commit is requested again', async () => {
  const { tids, waiting } = fixture(20)
  const user = userAt(tids.first(7))
  assert.equal(tids.ready(user), false)
  waiting[0]!.reject(new Error('disk full'))
  await settled()
  assert.equal(tids.ready(user), false)
  assert.equal(waiting.length, 2)
})

test('after the last own TID nothing has to be stored', () => {
  const { tids, waiting } = fixture(200)
  assert.equal(tids.ready(userAt(900)), true)
  assert.equal(waiting.length, 0)
})

test('while the disk refuses writes nothing is blocked: a random TID after the counted ones is used, and stored when the disk recovers', () => {
  for (const kept of [undefined, 20]) {
    const { tids, counters, waiting, log } = fixture(kept)
    log.degraded = true
    const user = userAt(tids.first(7))
    assert.equal(tids.ready(user), true)
    assert.equal(user.nextTid, 299)
    assert.equal(counters.get('tid:up:7'), 299)
    user.nextTid++
    log.degraded = false
    assert.equal(tids.ready(user), true)
    assert.equal(waiting.length, 0)
  }
})

test('a disk that fails during the write of a counter no longer blocks a new template', async () => {
  const { tids, waiting, log } = fixture(20)
  const user = userAt(tids.first(7))
  assert.equal(tids.ready(user), false)
  log.degraded = true
  assert.equal(tids.ready(user), true)
  assert.ok(user.nextTid > 199)
  waiting[0]!.resolve()
  await settled()
  assert.equal(tids.ready(user), true)
})
