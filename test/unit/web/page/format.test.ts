import assert from 'node:assert/strict'
import { test } from 'node:test'
import { age, counted, momentText, notices, number, sparkline } from '../../../../src/web/page/format'

test('numbers and ages are displayed in short form', () => {
  assert.deepEqual(
    ['0', '42', '1,234', '0.125', '3.142', '1.00e-5', '1.20e+12'],
    [0, 42, 1234, 0.125, Math.PI, 1e-5, 1.2e12].map(v => number(v)),
  )
  assert.deepEqual([age(1000, 500), age(61_000, 1000), age(4_000_000, 0)], ['now', '1 min ago', '1 h ago'])
})

test('a sparkline stays in its box and a flat one is in the middle', () => {
  assert.equal(sparkline([1], 100, 20, 5), '')
  assert.equal(sparkline([4, 4], 100, 20, 5), '75.0,10.0 100.0,10.0')
  assert.equal(sparkline([0, 1, 0], 100, 20, 5), '50.0,18.5 75.0,1.5 100.0,18.5')
})

test('problems of a gateway are shown, the worst first; a healthy gateway shows none', () => {
  assert.deepEqual(notices({ guard: { level: 'normal' } }), [])
  const all = notices({
    log: { state: 'degraded', reason: 'disk full (ENOSPC)', pending: 7 },
    disk: { reason: 'disk full (ENOSPC)', in_ram: ['the lock', 'the token'], hint: 'free space' },
    identity: { refused: 'ID_POOL_EXHAUSTED' },
    config_problem: 'line 3',
    attention: [
      { device_id: 'tank', sensor_id: 'level', status: 'ERROR', reason: 'no answer from slave 7' },
      { device_id: 'pump', status: 'ALARM' },
    ],
    guard: { level: 'tight', reason: 'memory 190 MiB of 192 MiB' },
    needs_restart: ['engine_settings.precision', 'receiver.frames'],
  })
  assert.deepEqual(
    all.map(({ kind, bad }) => `${kind} ${bad}`),
    [
      'log true',
      'disk true',
      'id true',
      'config true',
      'tank level true',
      'pump  true',
      'guard false',
      'restart false',
    ],
  )
  assert.match(all[0]!.text, /disk full \(ENOSPC\).*7 records in RAM only/)
  assert.match(all[1]!.text, /the lock, the token; free space/)
  assert.match(all[2]!.text, /answers ID_POOL_EXHAUSTED/)
  assert.match(all[3]!.text, /line 3/)
  assert.deepEqual([all[4]!.text, all[5]!.text], ['level of tank: ERROR (no answer from slave 7)', 'pump: ALARM'])
  assert.match(all[7]!.text, /engine_settings\.precision, receiver\.frames/)
})

test('counts use singular or plural, and timestamps are recognized by their names', () => {
  assert.deepEqual(
    [0, 1, 2000].map(n => counted(n, 'packet')),
    ['0 packets', '1 packet', '2,000 packets'],
  )
  assert.equal(counted(2, 'entry'), '2 entries')
  const at = Date.UTC(2026, 10, 21, 20)
  for (const name of ['at', 'since', 'checked_at', 'last_sync'])
    assert.equal(momentText(name, at), new Date(at).toLocaleString())
  assert.equal(momentText('measured', new Date(at).toISOString()), new Date(at).toLocaleString())
  for (const [name, value] of [
    ['bytes', at],
    ['at', 5],
    ['at', '2026'],
    ['format', at],
  ] as const)
    assert.equal(momentText(name, value), undefined)
})
