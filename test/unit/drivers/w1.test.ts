import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createW1, parseW1, type W1Context } from '../../../drivers/host/w1'
import { systemClock } from '../../../src/lib/clock'
import { OsError } from '../../../src/lib/errors'
import { silentLogger } from '../../../src/lib/logger'
import type { OpenableEvents } from '../../../src/links/contracts'
import { heldClock } from '../../lib/hanging'

const events: OpenableEvents = { lost: () => undefined, degraded: () => undefined }
const context: W1Context = { clock: systemClock, logger: silentLogger }
const slave = (bytes: string, verdict: string, t: number): string =>
  `${bytes} : crc=${bytes.slice(-2)} ${verdict}\n${bytes} t=${t}\n`
const GOOD = slave('72 01 4b 46 7f ff 0e 10 57', 'YES', 23_125)
const COLD = slave('5e ff 4b 46 7f ff 02 10 d8', 'YES', -10_125)

function tree(t: TestContext, files: Record<string, string>) {
  const root = mkdtempSync(join(tmpdir(), 'w1-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const put = (device: string, text: string): void => {
    const path = join(root, 'bus/w1/devices', device, 'w1_slave')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  for (const [device, text] of Object.entries(files)) put(device, text)
  const take = (device: string): void => rmSync(join(root, 'bus/w1/devices', device), { recursive: true })
  return { root, put, take }
}

test('what w1_slave holds: values, a wrong CRC, a line held low, the value after power-up', () => {
  assert.deepEqual(parseW1(GOOD), { raw: '72 01 4b 46 7f ff 0e 10 57', value: 23.125 })
  assert.deepEqual(parseW1(COLD), { raw: '5e ff 4b 46 7f ff 02 10 d8', value: -10.125 })
  const error = (text: string): string => (parseW1(text) as { error: string }).error
  assert.match(error(slave('72 01 4b 46 7f ff 0e 10 00', 'NO', 23_125)), /wrong CRC/)
  assert.match(error(slave('00 00 00 00 00 00 00 00 00', 'YES', 0)), /held low/)
  assert.match(error(slave('50 05 4b 46 7f ff 0c 10 1c', 'YES', 85_000)), /after power-up/)
  // 85 °C that was measured
  assert.deepEqual(parseW1(slave('50 05 4b 46 7f ff 10 10 03', 'YES', 85_000)), {
    raw: '50 05 4b 46 7f ff 10 10 03',
    value: 85,
  })
  for (const text of ['', 'x', '72 01', `${GOOD.split('\n')[0]}\n`]) assert.match(error(text), /is not what/)
})

test('every thermometer there is, each read in a thread of its own', async t => {
  heldClock(t)
  const { root, put, take } = tree(t, { '28-0316a2795fff': GOOD, '10-000802b4ba0e': COLD, w1_bus_master1: '' })
  const source = createW1('cellar', { sys_root: root }, context)
  await source.open(events)
  assert.deepEqual(await source.read(), [
    ['w1_10-000802b4ba0e', 'OK', -10.125, 'Cel'],
    ['w1_28-0316a2795fff', 'OK', 23.125, 'Cel'],
  ])
  take('10-000802b4ba0e')
  put('28-0316a2795fff', slave('72 01 4b 46 7f ff 0e 10 00', 'NO', 23_125))
  const [gone, bad] = await source.readRaw!()
  assert.equal(gone!.error, '10-000802b4ba0e does not answer (ENOENT)')
  assert.match(bad!.error!, /^28-0316a2795fff: wrong CRC/)
  assert.equal(bad!.raw, '72 01 4b 46 7f ff 0e 10 00')
  take('28-0316a2795fff')
  await assert.rejects(source.read(), { code: 'LINK_DOWN' })
  await source.close()
})

test('named sensors keep their order and place; without any the link says what to enable', async t => {
  heldClock(t)
  const { root } = tree(t, { '28-0316a2795fff': GOOD, '28-000000000002': COLD })
  const sensors = [
    { device: '28-0316a2795fff', id: 'boiler', status: [{ above: 20, status: 'WARM' }] },
    { device: '28-0000000000aa', id: 'lost' },
  ]
  const source = createW1('house', { sys_root: root, sensors }, context)
  await source.open(events)
  assert.deepEqual(await source.read(), [
    ['boiler', 'WARM', 23.125, 'Cel'],
    ['lost', 'ERROR', null, 'Cel'],
  ])
  await source.close()
  const none = createW1('none', { sys_root: join(root, 'nowhere') }, context)
  await assert.rejects(none.open(events), (error: OsError) => error.code === 'NOT_FOUND' && /w1-gpio/.test(error.hint))
  const others = createW1('others', { sys_root: root, sensors: sensors.slice(1) }, context)
  await assert.rejects(others.open(events), { hint: 'there are: 28-000000000002, 28-0316a2795fff' })
  assert.throws(() => createW1('x', { sensors: [{ device: 'thermometer', id: 'a' }] }, context), /a number as in/)
})

test('a bus that holds the kernel up loses the link instead of hanging it', async t => {
  const { root } = tree(t, { '28-0316a2795fff': GOOD })
  let closed = 0
  const reader = () => ({
    read: () => Promise.reject(new OsError('TIMEOUT', 'no end of read in 3000 ms')),
    close: () => {
      closed++
    },
  })
  const source = createW1('cellar', { sys_root: root }, { ...context, reader })
  await source.open(events)
  await assert.rejects(source.read(), { code: 'TIMEOUT' })
  await source.close()
  assert.equal(closed, 1)
})
