import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TidCounters } from '../../../src/gateway/uplink/tids'
import { silentLogger } from '../../../src/lib/logger'

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
  }
  let changes = 0
  const tids = new TidCounters('up', log, silentLogger, () => changes++)
  return { tids, counters, waiting, changes: () => changes }
}
const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

test('no frame of a new template before the counter is on flash; one commit serves several templates', async () => {
  const { tids, counters, waiting, changes } = fixture()
  const user = { aid: 7, nextTid: tids.first(7) }
  assert.equal(tids.ready(user), false)
  assert.equal(tids.ready(user), false)
  assert.equal(waiting.length, 1)
  waiting[0]!.resolve()
  await settled()
  assert.equal(changes(), 1)
  for (; user.nextTid < counters.get('tid:up:7')!; user.nextTid++) assert.equal(tids.ready(user), true)
  assert.equal(tids.ready(user), false, 'the next run would start here')
  tids.keep([user])
  assert.equal(counters.get('tid:up:7'), user.nextTid)
})

test('a commit that failed is asked for again', async () => {
  const { tids, waiting } = fixture(20)
  const user = { aid: 7, nextTid: tids.first(7) }
  assert.equal(tids.ready(user), false)
  waiting[0]!.reject(new Error('disk full'))
  await settled()
  assert.equal(tids.ready(user), false)
  assert.equal(waiting.length, 2)
})

test('behind the last own TID nothing has to be kept', () => {
  const { tids, waiting } = fixture(200)
  assert.equal(tids.ready({ aid: 7, nextTid: 900 }), true)
  assert.equal(waiting.length, 0)
})
