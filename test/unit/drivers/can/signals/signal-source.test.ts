// The source `can` over a bus in memory: which signals it reads, which filters it sets, and what a reading is when frames
// arrive, stop, or come from two stations.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plan, unitOf } from '../../../../../drivers/can/signals/plan'
import { canSourceOptions } from '../../../../../drivers/can/signals/signal-options'
import { CanSource, canSource } from '../../../../../drivers/can/signals/signal-source'
import { silentLogger } from '../../../../../src/lib/logger'
import { checkOptions } from '../../../../../src/links/driver-options'
import { CAN_EFF, CAN_ERR, CAN_RTR } from '../../../../../src/native/can'
import { parseDbc } from '../../../../lib/dbc'
import { ManualClock, ManualTimers } from '../../../../lib/manual'
import { Bus, DBC } from './fake-bus'

interface World {
  source: CanSource
  bus: Bus
  clock: ManualClock
  timers: ManualTimers
  lost: string[]
  degraded: string[]
  said: string[]
}

async function world(options: Record<string, unknown> = {}, dbc = DBC, bus = new Bus()): Promise<World> {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const said: string[] = []
  const logger = { ...silentLogger, warn: (line: string) => void said.push(line) }
  const raw = { interface: 'can0', dbc: '/etc/os-node/engine.dbc', ...options }
  const files = { size: () => dbc.length, read: () => Buffer.from(dbc) }
  const source = new CanSource(
    'engine',
    checkOptions(canSourceOptions, raw, 'engine'),
    { clock, logger },
    { files, ports: bus, timers },
  )
  const lost: string[] = []
  const degraded: string[] = []
  await source.open({ lost: why => lost.push(why), degraded: why => degraded.push(why) })
  return { source, bus, clock, timers, lost, degraded, said }
}

test('errors in a file are reported: three lines of it, and how many more there are', () => {
  const good = 'BO_ 1 M: 8 X\n SG_ A : 0|8@1+ (1,0) [0|0] "V" X\n'
  const warned = (wrong: number): readonly string[] =>
    plan(
      'engine',
      parseDbc(good + 'BO_ twice Nothing\n'.repeat(wrong)),
      checkOptions(canSourceOptions, { interface: 'can0', dbc: '/etc/engine.dbc' }, 'engine'),
    ).warnings
  const line = (n: number): string => parseDbc(good + 'BO_ twice Nothing\n'.repeat(n)).problems.at(-1)!
  const first = `/etc/engine.dbc: ${line(1)}`
  assert.deepEqual(warned(0), [])
  assert.deepEqual(warned(1), [first])
  assert.deepEqual(warned(3), [`${first}; ${line(2)}; ${line(3)}`])
  assert.deepEqual(warned(5), [`${first}; ${line(2)}; ${line(3)}; 2 more`])
})

test('the file is read once for the sensor list and the first opening, and again for each later opening', async () => {
  const clock = new ManualClock()
  let read = 0
  const there = {
    size: () => DBC.length,
    read: () => {
      read++
      return Buffer.from(DBC)
    },
  }
  const options = checkOptions(canSourceOptions, { interface: 'can0', dbc: '/x.dbc', match: 'Basics' }, 'engine')
  const parts = { files: there, ports: new Bus(), timers: new ManualTimers(clock) }
  const source = new CanSource('engine', options, { clock, logger: silentLogger }, parts)
  assert.deepEqual(
    (await source.sensors).map(({ id, unit }) => `${id} ${unit}`),
    ['Coolant degC', 'Basics_Speed km/h', 'Gear 1', 'Steps {steps}'],
  )
  const events = { lost: () => undefined, degraded: () => undefined }
  await source.open(events)
  assert.equal(read, 1)
  await source.close()
  await source.open(events)
  assert.equal(read, 2)
  await source.close()
})

test('readings are the newest values of the selected signals, in the order of the file', async () => {
  const { source, bus } = await world({ match: ['EngSpeed', 'Basics.*'], value_words: true })
  assert.deepEqual(
    (await source.read()).map(row => row.slice(0, 3)),
    [
      ['Coolant', 'ERROR', null],
      ['Basics_Speed', 'ERROR', null],
      ['Gear', 'ERROR', null],
      ['Steps', 'ERROR', null],
      ['EngSpeed', 'ERROR', null],
    ],
  )
  bus.arrive([291, '0000000000000000'], [291, 'ff9c401605000000'], [CAN_EFF + 0x0cf00417, 'ffffff6813ffffff'])
  assert.deepEqual(await source.read(), [
    ['Coolant', 'OK', -50, 'degC'],
    ['Basics_Speed', 'OK', 100, 'km/h'],
    ['Gear', 'GEAR_ONE', 1, '1'],
    ['Steps', 'OK', 5, '{steps}'],
    ['EngSpeed', 'OK', 621, 'rpm'],
  ])
  bus.arrive([291, 'ff9c407605000000'])
  assert.deepEqual((await source.read())[2], ['Gear', 'ERROR', null, '1'])
  const { frames, short, incomplete, mixed, bitrate, receive_buffer } = source.counters.detail!
  assert.deepEqual([frames, short, incomplete, mixed, bitrate, receive_buffer], [4, 0, 0, 0, 500_000, 8 << 20])
})

test('a channel may have another name, unit, scale and status', async () => {
  const { source, bus, said } = await world({
    match: ['Coolant', 'Steps'],
    channels: {
      'Basics.Coolant': { id: 'water', unit: 'K', offset: 273.15, status: [{ above: 350, status: 'ALARM' }] },
      Steps: { scale: 2 },
    },
  })
  bus.arrive([291, '0320000007000000'])
  assert.deepEqual(await source.read(), [
    ['water', 'OK', 800 * 0.1 - 40 + 273.15, 'K'],
    ['Steps', 'OK', 14, '{steps}'],
  ])
  bus.arrive([291, '0500000007000000'])
  assert.equal((await source.read())[0]![1], 'ALARM')
  assert.match(said.join(), /unknown units are kept as notes: \{steps\}/)
})

test('a signal that is no longer received is an error; multiplexed signals are checked one by one', async () => {
  const { source, bus, clock, degraded } = await world({ match: 'Mux', max_age_ms: 1000 })
  bus.arrive([300, '0111'], [300, '0222'])
  clock.advance(900)
  bus.arrive([300, '0112'])
  assert.deepEqual(
    (await source.read()).map(row => row[2]),
    [1, 0x12, 0x22],
  )
  clock.advance(200)
  assert.deepEqual(
    (await source.read()).map(row => row[2]),
    [1, 0x12, null],
  )
  assert.match(degraded.at(-1)!, /Two was not heard for 1 s/)
})

test('only frames of selected signals pass the filters, by id, by group, by station', async () => {
  const all = await world()
  assert.deepEqual(all.bus.opened, {
    name: 'can0',
    fd: false,
    filters: [
      { id: 291, mask: CAN_EFF + CAN_RTR + 0x7ff },
      { id: 300, mask: CAN_EFF + CAN_RTR + 0x7ff },
      { id: CAN_EFF + 0x00f00400, mask: CAN_EFF + CAN_RTR + 0x03ffff00 },
      { id: CAN_EFF + 0x00feca00, mask: CAN_EFF + CAN_RTR + 0x03ffff00 },
      { id: CAN_EFF + 0x00ec0000, mask: CAN_EFF + CAN_RTR + 0x03ff0000 },
      { id: CAN_EFF + 0x00eb0000, mask: CAN_EFF + CAN_RTR + 0x03ff0000 },
    ],
  })
  const one = await world({ match: 'EEC1', source_address: 23 })
  assert.deepEqual(one.bus.opened!.filters, [{ id: CAN_EFF + 0x00f00417, mask: CAN_EFF + CAN_RTR + 0x03ffffff }])
  const plain = await world({ match: 'EEC1', j1939: false })
  assert.deepEqual(plain.bus.opened!.filters, [{ id: CAN_EFF + 0x0cf004fe, mask: CAN_EFF + CAN_RTR + 0x1fffffff }])
  // an 11-bit id that looks like part of a long one, a request for a frame, an error frame: none is ours
  all.bus.arrive([CAN_EFF + 291, '00'], [291 + CAN_RTR, ''], [CAN_ERR + 4, '0000000000000000'])
  assert.equal(all.source.counters.detail!.frames, 0)
})

test('the J1939 code for not available gives no value; long messages are reassembled', async () => {
  const { source, bus } = await world({ match: ['EEC1', 'DM1'] })
  bus.arrive(
    [CAN_EFF + 0x0cf00400, 'ffffffffffffffff'],
    [CAN_EFF + 0x18ecff00, '200c0002ffcafe00'],
    [CAN_EFF + 0x18ebff00, '0105000000000000'],
    [CAN_EFF + 0x18ebff00, '020000000018ffff'],
  )
  assert.deepEqual(await source.readRaw(), [
    {
      sensor_id: 'EngSpeed',
      raw: 'ffffffffffffffff',
      status: 'ERROR',
      value: null,
      unit: 'rpm',
      error: 'reported as not available',
    },
    { sensor_id: 'DM1_Speed', raw: '050000000000000000000018', status: 'OK', value: 5, unit: '1' },
    { sensor_id: 'Last', raw: '050000000000000000000018', status: 'OK', value: 0x18, unit: 'V' },
  ])
})

test('one message from two stations is an error until one station is selected, or one falls silent', async () => {
  const { source, bus, clock } = await world({ match: 'EEC1', max_age_ms: 1000 })
  const value = async (): Promise<unknown> => (await source.read())[0]![2]
  bus.arrive([CAN_EFF + 0x0cf00400, 'ffffff6813ffffff'])
  assert.equal(await value(), 621)
  clock.advance(1500)
  bus.arrive([CAN_EFF + 0x0cf00401, 'ffffff0010ffffff'])
  assert.equal(await value(), 512)
  bus.arrive([CAN_EFF + 0x0cf00400, 'ffffff6813ffffff'], [CAN_EFF + 0x0cf00401, 'ffffff0010ffffff'])
  assert.equal(await value(), null)
  assert.match((await source.readRaw())[0]!.error!, /sent by stations 1 and 0: choose one with source_address/)
  // one station has fallen silent, as after a change of its address
  clock.advance(900)
  bus.arrive([CAN_EFF + 0x0cf00401, 'ffffff0010ffffff'])
  assert.equal(await value(), null)
  clock.advance(200)
  bus.arrive([CAN_EFF + 0x0cf00401, 'ffffff0010ffffff'])
  assert.equal(await value(), 512)
  const chosen = await world({ match: 'EEC1', source_address: 1 })
  chosen.bus.arrive([CAN_EFF + 0x0cf00401, 'ffffff0010ffffff'], [CAN_EFF + 0x0cf00400, 'ffffff6813ffffff'])
  assert.equal((await chosen.source.read())[0]![2], 512)
})

test('a file that distinguishes two stations of one group reads each from its own frames', async () => {
  const dbc = `BO_ 2364540160 Front: 8 X
 SG_ A : 0|8@1+ (1,0) [0|0] "V" X
BO_ 2364540161 Rear: 8 X
 SG_ B : 0|8@1+ (1,0) [0|0] "V" X
BA_ "ProtocolType" "J1939";`
  const { source, bus } = await world({}, dbc)
  bus.arrive([CAN_EFF + 0x18f00401, '22'], [CAN_EFF + 0x18f00400, '11'], [CAN_EFF + 0x18f00402, '33'])
  assert.deepEqual(
    (await source.read()).map(row => row[2]),
    [null, null],
  )
  bus.arrive([CAN_EFF + 0x18f00501, '22'], [CAN_EFF + 0x18f00500, '11'], [CAN_EFF + 0x18f00502, '33'])
  assert.deepEqual(
    (await source.read()).map(row => row[2]),
    [0x11, 0x22],
  )
})

test('an interface that goes down loses the link; closing and reopening starts with no values', async () => {
  const { source, bus, lost } = await world({ match: 'Coolant' })
  bus.arrive([291, '0000000000000000'])
  await source.read()
  bus.state = { up: false }
  bus.fail(-100)
  assert.equal(lost.length, 1)
  assert.match(lost[0]!, /^can0 is down: systemctl start os-node-can@can0/)
  await source.close()
  await source.close()
  assert.equal(bus.closed, 1)
  await assert.rejects(source.read(), { code: 'LINK_DOWN' })
  assert.equal(source.counters.rx, 1)
})

test('the state of the bus is shown with the missing values, and a source whose bus is back is reopened immediately', async () => {
  const bus = new Bus()
  await assert.rejects(world({ interface: 'can9' }, DBC, bus), {
    code: 'LINK_DOWN',
    message: /no interface can9: plug/,
  })
  bus.state = { state: 'error-passive', tx_errors: 128 }
  const { source, degraded, timers } = await world({ match: 'Coolant' }, DBC, bus)
  assert.match(degraded.at(-1)!, /^can0 is error-passive \(transmit errors 128/)
  await source.read()
  assert.match(degraded.at(-1)!, /^can0 is error-passive .*; 1 of 1 sensor: Coolant was not heard yet$/)
  bus.arrive([291, '0000000000000000'])
  await source.read()
  assert.match(degraded.at(-1)!, /^can0 is error-passive [^;]*$/)
  await source.close()
  bus.state = { up: false }
  await assert.rejects(source.open({ lost: () => undefined, degraded: () => undefined }), /can0 is down/)
  let back = 0
  source.onReturn(() => back++)
  await timers.advance(1)
  assert.equal(back, 0)
  bus.change({})
  assert.equal(back, 1)
})

test('frames lost to overload are counted and reported for a minute, with what to do', async () => {
  const bus = new Bus()
  const { source, degraded, clock } = await world({ match: 'Coolant', max_age_ms: 3_600_000 }, DBC, bus)
  bus.arrive([291, '0000000000000000'])
  await source.read()
  assert.equal(degraded.at(-1), '')
  bus.dropped = 7
  await source.read()
  assert.match(degraded.at(-1)!, /^7 frames of can0 not read in time; choose fewer signals/)
  assert.equal(source.counters.dropped, 7)
  clock.advance(61_000)
  await source.read()
  assert.equal(degraded.at(-1), '')
  await source.close()
  bus.granted = 425_984
  bus.dropped = 0
  const told: string[] = []
  await source.open({ lost: () => undefined, degraded: reason => told.push(reason) })
  bus.arrive([291, '0000000000000000'])
  bus.dropped = 1
  await source.read()
  assert.match(
    told.at(-1)!,
    /8 frames .*the receive buffer has 425984 bytes instead of 4194304: raise net.core.rmem_max/,
  )
})

test('a source that is closed while its file is read stays closed', async () => {
  const { source, bus } = await world({ match: 'Coolant' })
  await source.close()
  const opening = source.open({ lost: () => undefined, degraded: () => undefined })
  await source.close()
  await assert.rejects(opening, /closed while opening/)
  assert.equal(bus.closed, 1)
})

test('nonsensical options are refused with the likely intention', async () => {
  const refused = (options: Record<string, unknown>, message: RegExp, dbc?: string, code = 'CONFIG_INVALID') =>
    assert.rejects(world(options, dbc), { code, message })
  await refused({ match: 'Coolent' }, /no signal matches Coolent/)
  await assert.rejects(world({ match: 'Coolent' }), { hint: 'did you mean Coolant?' })
  await refused({ channels: { Speed: {} } }, /Basics.Speed and DM1.Speed have this name/)
  await refused({ channels: { Nothing: {} } }, /channels.Nothing: no message has such a signal/)
  await refused({ channels: { Gear: { id: 'Steps' } } }, /two channels have the id Steps/)
  await refused({ intervall_ms: 5 }, /did you mean interval_ms/, undefined, 'UNKNOWN_KEY')
  await refused({ interface: '' }, /interface/)
  await refused({}, /describes no message \(line 1:/, 'BO_ x')
  // suggestions are searched among this many names only: a mistyped pattern must not block the gateway
  const many = Array.from({ length: 200 }, (_, m) => {
    const signals = Array.from({ length: 50 }, (_, k) => ` SG_ Q${m}q${k}q : 0|8@1+ (1,0) [0|0] "" X`)
    return [`BO_ ${m + 1} M${m}: 8 X`, ...signals].join('\n')
  }).join('\n')
  await assert.rejects(world({ match: 'M99.Q99q49qx' }, many), { hint: 'did you mean M99.Q99q49q?' })
  await assert.rejects(
    world({ match: 'Q99q49qq' }, many),
    ({ hint }: { hint?: string }) => hint !== 'did you mean Q99q49q?',
  )
  const source = canSource.create(
    'x',
    { interface: 'can0', dbc: '/no/such.dbc' },
    {
      clock: new ManualClock(),
      logger: undefined as never,
    },
  )
  await assert.rejects(source.open({ lost: () => undefined, degraded: () => undefined }), {
    code: 'NOT_FOUND',
    message: 'the DBC file /no/such.dbc is not there',
  })
})

test('the size of a group is limited', () => {
  const signals = Array.from({ length: 513 }, (_, k) => ` SG_ S${k} : 0|8@1+ (1,0) [0|0] "" X`).join('\n')
  const options = checkOptions(canSourceOptions, { interface: 'can0', dbc: 'x' }, 'x')
  assert.throws(() => plan('x', parseDbc(`BO_ 1 M: 8 X\n${signals}`), options), /513 signals are chosen, 512 at most/)
  assert.equal(plan('x', parseDbc(`BO_ 1 M: 8 X\n${signals}`), { ...options, match: 'S5*' }).channels.length, 24)
})

test('units of DBC files are recognized, corrected or kept as notes', () => {
  const pairs: Record<string, string> = {
    degC: 'degC',
    '°C': '°C',
    'Â°C': '°C',
    'ï¿½C': '°C',
    '\ufffdC': '°C',
    '': '1',
    '-': '1',
    ' bar ': 'bar',
    '1/min': '1/min',
    'm/s^2': 'm/s^2',
    'Bool {x}': '{Bool_x}',
    'g/kWh': 'g/kWh',
  }
  for (const [unit, expected] of Object.entries(pairs)) assert.equal(unitOf(unit), expected, unit)
})
