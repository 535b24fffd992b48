import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createW1, parseW1, type W1Context } from '../../../../drivers/host/w1'
import { systemClock } from '../../../../src/lib/clock'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents } from '../../../../src/links/contracts'
import { heldClock } from '../../../lib/hanging'

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

test('w1_slave is parsed: values, a wrong CRC, a line held low, the power-up value', () => {
  assert.deepEqual(parseW1(GOOD), { raw: '72 01 4b 46 7f ff 0e 10 57', value: 23.125 })
  assert.deepEqual(parseW1(COLD), { raw: '5e ff 4b 46 7f ff 02 10 d8', value: -10.125 })
  const error = (text: string): string => (parseW1(text) as { error: string }).error
  assert.match(error(slave('72 01 4b 46 7f ff 0e 10 00', 'NO', 23_125)), /wrong CRC/)
  assert.match(error(slave('00 00 00 00 00 00 00 00 00', 'YES', 0)), /held low/)
  assert.match(error(slave('50 05 4b 46 7f ff 0c 10 1c', 'YES', 85_000)), /after power-up/)
  // 85 °C that was really measured
  assert.deepEqual(parseW1(slave('50 05 4b 46 7f ff 10 10 03', 'YES', 85_000)), {
    raw: '50 05 4b 46 7f ff 10 10 03',
    value: 85,
  })
  for (const text of ['', 'x', '72 01', `${GOOD.split('\n')[0]}\n`]) assert.match(error(text), /unexpected format/)
})

test('every thermometer present is read, each in its own thread', async t => {
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

test('named sensors keep their order and slot; without any the link says what to enable', async t => {
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

test('a bus that blocks the kernel loses the link instead of hanging it', async t => {
  const { root } = tree(t, { '28-0316a2795fff': GOOD })
  let closed = 0
  const reader = () => ({
    read: () => Promise.reject(new OsError('TIMEOUT', 'no end of read in 3000 ms')),
    write: () => Promise.reject(new OsError('TIMEOUT', 'no end of write in 3000 ms')),
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

test('the sensors of one bus convert together, and are read when all conversions are done', async t => {
  const root = mkdtempSync(join(tmpdir(), 'w1-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const folder = join(root, 'bus/w1/devices')
  mkdirSync(folder, { recursive: true })
  const put = (bus: number, device: string): void => {
    mkdirSync(join(root, `devices/w1_bus_master${bus}`, device), { recursive: true })
    symlinkSync(join('../../../devices', `w1_bus_master${bus}`, device), join(folder, device))
  }
  for (const device of ['28-000000000001', '28-000000000002', '28-000000000003']) put(1, device)
  put(2, '28-000000000004')
  /** the kernel: calls in their order; -1 while the bus converts */
  const asked: string[] = []
  let [converting, refused] = [0, '']
  const nameOf = (path: string): string => path.split('/').slice(-2).join('/')
  const answer = (path: string): string => {
    if (!path.endsWith('therm_bulk_read')) return converting > 0 ? '' : GOOD
    return converting-- > 0 ? '-1\n' : '1\n'
  }
  const reader = () => ({
    read: async (path: string, into: Uint8Array) => {
      asked.push(nameOf(path))
      const text = answer(path)
      into.set(Buffer.from(text))
      return text.length
    },
    write: async (path: string, text: string) => {
      if (refused) throw new OsError('NO_ACCESS', 'no', { cause: Object.assign(new Error(refused), { code: refused }) })
      asked.push(`${text} ${nameOf(path)}`)
      converting = 3
      return text.length
    },
    close: () => undefined,
  })
  const timers = {
    after: (_: number, run: () => void) => {
      setImmediate(run)
      return () => undefined
    },
  }
  const source = createW1('cellar', { sys_root: root }, { ...context, reader, timers })
  await source.open(events)
  assert.deepEqual(
    (await source.read()).map(([, status, value]) => [status, value]),
    Array(4).fill(['OK', 23.125]),
  )
  const trigger = 'trigger w1_bus_master1/therm_bulk_read'
  assert.deepEqual(
    asked.filter(text => text.startsWith('trigger')),
    [trigger],
    'once, and not on the bus with one sensor',
  )
  assert.equal(asked.indexOf(trigger), 0)
  assert.equal(
    asked.slice(1, 5).every(text => text === 'w1_bus_master1/therm_bulk_read'),
    true,
    asked.join(),
  )
  assert.equal(asked.length, 1 + 4 + 4)
  // an older kernel, or no write permission: each read converts on its own
  for (refused of ['EACCES', 'ENOENT']) assert.equal((await source.read())[0]![2], 23.125)
  assert.deepEqual(source.counters.detail, { conversions_together: 1, conversions_refused: 2 })
  await source.close()
})
