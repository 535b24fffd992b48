import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LatestBoard } from '../../../src/gateway/latest'
import { attentionOf } from '../../../src/gateway/report'
import type { Fact } from '../../../src/pipeline/fact'

const fact = (aid: number, tRaw: number, value: number): Fact => ({
  id: 'GW',
  state: 'ONLINE',
  tRaw,
  aid,
  sensors: [{ id: 'T1', status: 'OK', unit: 'K', value }],
})

test('own sensors keep one entry when the gateway gets its id; other sources have one entry each', () => {
  const board = new LatestBoard()
  board.note(fact(4294967295, 1000, 1), { medium: 'local' })
  board.note(fact(7, 2000, 2), { medium: 'local' })
  board.note(fact(8, 2000, 3), { medium: 'UDP', address: '192.0.2.1:1' })
  board.note(fact(9, 2000, 4), { medium: 'UDP', address: '192.0.2.1:1' })
  assert.deepEqual(
    board.list().map(group => [group.source_aid, group.sensors[0]?.value]),
    [
      [8, 3],
      [9, 4],
      [7, 2],
    ],
  )
})

test('an older fact does not replace a newer one, and the number of entries is limited', () => {
  const board = new LatestBoard()
  board.note(fact(8, 2000, 3), { medium: 'UDP' })
  board.note(fact(8, 1000, 1), { medium: 'UDP' })
  assert.equal(board.list()[0]?.sensors[0]?.value, 3)
  board.note(fact(7, 2500, 4), { medium: 'local' })
  for (let aid = 100; aid < 1100; aid++) board.note(fact(aid, 3000, aid), { medium: 'UDP' })
  assert.equal(board.list().length, 512)
  assert.deepEqual(board.own(), { T1: 4 }, 'other devices take nothing from own sensors')
})

test('a sensor appears once, with its newest fact, however the set of sensors changes; a removed source leaves nothing', () => {
  const board = new LatestBoard()
  const of = (tRaw: number, ids: string, status = 'OK'): Fact => ({
    ...fact(8, tRaw, 1),
    sensors: [...ids].map(id => ({ id, status, unit: 'K', value: tRaw })),
  })
  const shown = () => board.list().map(({ sensors }) => sensors.map(({ id, value }) => `${id}${value}`).join(' '))
  board.note(of(1, 'PQ', 'ALARM'), { medium: 'UDP' })
  board.note(of(2, 'PQR'), { medium: 'UDP' })
  assert.deepEqual(shown(), ['P2 Q2 R2'], 'more of them')
  board.note(of(3, 'P'), { medium: 'UDP' })
  assert.deepEqual(shown(), ['P3', 'Q2 R2'], 'less')
  board.note(of(2, 'PS'), { medium: 'UDP' })
  assert.deepEqual(shown(), ['P3', 'S2', 'Q2 R2'], 'late')
  board.note(of(4, 'PQRS'), { medium: 'UDP' })
  board.note({ ...of(4, 'P'), aid: 9 }, { medium: 'UDP' })
  assert.deepEqual(shown(), ['P4 Q4 R4 S4', 'P4'], 'another device has its own')
  board.note(of(5, 'PQ'), { medium: 'local' })
  board.note(of(5, 'R'), { medium: 'local' })
  board.drop(['P', 'R'])
  assert.deepEqual(shown(), ['P4 Q4 R4 S4', 'P4', 'Q5'])
  assert.deepEqual(board.own(), { Q: 5 })
})

test('a time far ahead, recorded before this machine knew the time, is replaced by the next value', () => {
  let latest = Number.POSITIVE_INFINITY
  const board = new LatestBoard(() => latest)
  board.note(fact(8, 9e12, 666), { medium: 'UDP' })
  board.note(fact(8, 1000, 1), { medium: 'UDP' })
  assert.equal(board.list()[0]?.sensors[0]?.value, 666)
  latest = 5000
  board.note(fact(8, 2000, 2), { medium: 'UDP' })
  assert.equal(board.list()[0]?.sensors[0]?.value, 2)
})

test('the list of problems has sensors in ERROR with their reason, alarms with their value, and what other devices report', () => {
  const board = new LatestBoard()
  const sensors = [
    { id: 'cold', status: 'ERROR', unit: 'K', value: null },
    { id: 'hot', status: 'ALARM', unit: 'K', value: 292.72999999999996 },
    { id: 'fine', status: 'OK', unit: 'K', value: 1 },
  ]
  board.note({ ...fact(7, 2000, 2), sensors }, { medium: 'local' })
  board.note({ ...fact(8, 2000, 2), id: 'FAR', state: 'alarm', sensors: [sensors[0]!] }, { medium: 'UDP' })
  const found = attentionOf(board.list(), ['ALARM'], id => `why ${id}`)
  const of = (device_id: string) => found.filter(row => row.device_id === device_id).map(({ at: _, ...row }) => row)
  assert.deepEqual(of('GW'), [
    { device_id: 'GW', sensor_id: 'cold', status: 'ERROR', reason: 'why cold' },
    { device_id: 'GW', sensor_id: 'hot', status: 'ALARM', reason: '19.58 °C' },
  ])
  assert.deepEqual(of('FAR'), [
    { device_id: 'FAR', status: 'alarm' },
    { device_id: 'FAR', sensor_id: 'cold', status: 'ERROR' },
  ])
})
