// How fast an uplink sends, at the limits of its budgets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pace } from '../../../../src/gateway/uplink/pace'

test('budgets accumulate one second at most; an overdraft is paid back before the next packet', () => {
  const settings = { ratePacketsS: 4, rateBytesS: 0, batchWindowMs: 0, batchItems: 8 }
  const pace = new Pace(settings, { maxPacket: 100 })
  assert.equal(pace.readyAt(1000), 1000)
  pace.packets(4)
  assert.equal(pace.readyAt(1000), 1001, 'nothing is left, nothing is owed')
  pace.packets(1)
  assert.equal(pace.readyAt(1000), 1250)
  assert.equal(pace.readyAt(1125), 1250)
  assert.equal(pace.readyAt(61_251), 61_251)
  pace.packets(6)
  assert.equal(pace.readyAt(61_251), 61_751, 'a minute saved up four')
  const slow = new Pace({ ...settings, ratePacketsS: 0.5 }, { maxPacket: 100 })
  slow.readyAt(0)
  slow.packets(1)
  assert.equal(slow.readyAt(0), 1000)
  assert.equal(slow.readyAt(60_000), 60_000)
  slow.packets(1)
  assert.equal(slow.readyAt(60_000), 60_001, 'a rate below one saves up one')
  const bytes = new Pace({ ...settings, ratePacketsS: 0, rateBytesS: 100 }, { maxPacket: 100 })
  bytes.readyAt(0)
  bytes.bytes(300)
  bytes.packets(1000)
  assert.equal(bytes.readyAt(0), 2000)
})

test('the airtime budget: normal data waits as long as it requires, alarms until it is used up', () => {
  let waits = { alarm: 0, data: 0 }
  const airtime = {
    ...{ of: () => 1, share: 0.01 },
    waitMs: (bytes: number, urgent: boolean) => (bytes === 51 ? (urgent ? waits.alarm : waits.data) : Number.NaN),
  }
  const pace = new Pace({ ratePacketsS: 0, rateBytesS: 0, batchWindowMs: 0, batchItems: 8 }, { maxPacket: 51, airtime })
  assert.deepEqual([pace.readyAt(10), pace.urgentMay], [10, true])
  waits = { alarm: 0, data: 700 }
  assert.deepEqual([pace.readyAt(10), pace.urgentMay], [710, true])
  waits = { alarm: 1, data: 900 }
  assert.deepEqual([pace.readyAt(10), pace.urgentMay], [910, false])
})

test('a batch waits for its window from the first record on, or until it is full', () => {
  const settings = { ratePacketsS: 0, rateBytesS: 0, batchItems: 3 }
  const pace = new Pace({ ...settings, batchWindowMs: 100 }, { maxPacket: 51 })
  const at = (now: number, waiting: number): number => pace.batchAt(now, () => waiting)
  assert.equal(at(0, 0), Number.POSITIVE_INFINITY)
  assert.deepEqual([at(10, 1), at(50, 2), at(60, 3)], [110, 110, 60])
  pace.batchDone()
  assert.deepEqual([at(70, 1), at(80, 0), at(90, 1)], [170, Number.POSITIVE_INFINITY, 190])
  const none = new Pace({ ...settings, batchWindowMs: 0 }, { maxPacket: 51 })
  assert.equal(
    none.batchAt(0, () => assert.fail('nothing is to be counted')),
    Number.NEGATIVE_INFINITY,
  )
})
