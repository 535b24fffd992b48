import assert from 'node:assert/strict'
import { test } from 'node:test'
import { object, parse } from 'valibot'
import { characterMs, serialEntries, serialSettings } from '../../../../drivers/serial/serial-options'

const settings = (raw: object) => parse(object(serialEntries(9600)), { port: 'ttyUSB0', ...raw })

test('a character on the wire has its start bit, data bits, parity and stop bits', () => {
  for (const [baudrate, data_bits, parity, stop_bits, bits] of [
    [1000, 8, 'none', 1, 10],
    [1000, 8, 'even', 1, 11],
    [1000, 8, 'odd', 2, 12],
    [1000, 5, 'none', 2, 8],
    [1000, 7, 'even', 1, 10],
  ] as const)
    assert.equal(
      characterMs(settings({ baudrate, data_bits, parity, stop_bits })),
      bits,
      `${data_bits}${parity}${stop_bits}`,
    )
  assert.equal(characterMs(settings({})), 10 / 9.6)
})

test('a control line left out stays unset, one that is off is set off', () => {
  const whole = settings({ dtr: false, other: 1 })
  assert.deepEqual(serialSettings(whole), {
    ...{ port: 'ttyUSB0', baudrate: 9600, data_bits: 8, parity: 'none', stop_bits: 1, flow: 'none' },
    ...{ dtr: false, write_timeout_ms: 5000 },
  })
  assert.deepEqual(Object.keys(serialSettings(settings({ rts: true }))).slice(-2), ['rts', 'write_timeout_ms'])
})
