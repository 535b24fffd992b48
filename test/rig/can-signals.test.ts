// A gateway that reads a CAN bus by a DBC file, with cansend of can-utils as the devices: facts in the log with the right
// values, the test command, an interface that goes down and returns.
// Needs: can
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import { type LoggedFact, type LoggedSensor, Machine, sensorsOf, until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

const DIR = '/run/can-signals'
const DBC = `VERSION ""
BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,-40) [-40|215] "\xb0C" X
 SG_ Speed : 16|12@1+ (0.0625,0) [0|250] "km/h" X
 SG_ Gear : 28|3@1+ (1,0) [0|7] "" X
BO_ 2364540158 EEC1: 8 Engine
 SG_ EngSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" X
BO_ 2566834942 DM1: 16 Engine
 SG_ Far : 88|8@1+ (1,0) [0|0] "V" X
BO_ 512 Wide: 64 Engine
 SG_ Last : 480|32@1- (1,0) [0|0] "V" X
BO_ 300 Mux: 8 Engine
 SG_ Which M : 0|8@1+ (1,0) [0|0] "" X
 SG_ One m1 : 8|8@1+ (1,0) [0|0] "bar" X
 SG_ Two m2 : 8|8@1+ (1,0) [0|0] "bar" X
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_ "VFrameFormat" BO_ 2364540158 3;
BA_ "VFrameFormat" BO_ 2566834942 3;
SIG_VALTYPE_ 512 Last : 1;
VAL_ 291 Gear 0 "Neutral" 1 "Gear one" ;
`

inTheRig(() => {
  tool('ip', 'link', 'add', 'vcan0', 'mtu', '72', 'type', 'vcan')
  tool('ip', 'link', 'set', 'vcan0', 'up')
  mkdirSync(DIR, { recursive: true })
  const dbc = join(DIR, 'engine.dbc')
  writeFileSync(dbc, DBC, 'latin1')
  const machine = new Machine(join(DIR, 'node'), 'run', {
    assigned_id: 11,
    device_id: 'TRUCK',
    gateway: {
      log: { commit_interval_ms: 100 },
      sources: [
        {
          name: 'engine',
          type: 'can',
          interface: 'vcan0',
          dbc,
          interval_ms: 200,
          max_age_ms: 600_000,
          value_words: true,
        },
        { name: 'nobody', type: 'can', interface: 'can7', dbc, interval_ms: 200, match: 'Mux' },
      ],
      uplinks: [{ name: 'nowhere', medium: 'UDP', host: '127.0.0.1', port: 9 }],
    },
  })
  const send = (...frames: string[]): void => {
    for (const frame of frames) tool('cansend', 'vcan0', frame)
  }
  const status = () => askControl(machine.dataDir, 'status')
  const facts = (): LoggedFact[] => [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]
  const newest = (): Map<string, LoggedSensor> => new Map(sensorsOf(facts().at(-1)!).map(sensor => [sensor.id, sensor]))
  const isNear = (value: unknown, expected: number): boolean => Math.abs((value as number) - expected) < 1e-9

  before(() => machine.start(['--port', '8100']))
  after(() => machine.stop('SIGKILL'))

  test('frames by cansend become readings in the log: both byte orders, J1939 in one and in many frames, FD, multiplexed', async () => {
    await until('it listens', async () => ['up', 'degraded'].includes((await status()).links.engine.state))
    const fd = `200##1${'00'.repeat(60)}0000c0bf`
    send('123#ff9c401605000000', '0CF00417#ffffff6813ffffff', '12C#0112', '12C#0222', fd, '555#1122334455667788')
    const sensors = await until('all are in the log', () => {
      // repeatedly: the frames of a packet may be 1.25 s apart, and each is a process here
      send('18ECFF17#200c0002ffcafe00', '18EBFF17#0105000000000000', '18EBFF17#020000000018ffff')
      const seen = newest()
      return [...seen.values()].every(({ status: word }) => word !== 'ERROR') ? seen : null
    })
    assert.deepEqual(
      [...sensors.keys()],
      ['Coolant', 'Speed', 'Gear', 'EngSpeed', 'Far', 'Last', 'Which', 'One', 'Two'],
    )
    const value = (id: string): number | null => sensors.get(id)!.value
    assert.ok(isNear(value('Coolant'), 273.15 - 50) && sensors.get('Coolant')!.unit === 'K')
    assert.ok(isNear(value('Speed'), 100 / 3.6) && sensors.get('Speed')!.unit === 'm/s')
    assert.ok(isNear(value('EngSpeed'), 621 / 60) && sensors.get('EngSpeed')!.unit === 'Hz')
    assert.deepEqual([sensors.get('Gear')!.status, value('Gear')], ['GEAR_ONE', 1])
    assert.deepEqual([value('Far'), value('Last'), value('Which')], [0x18, -1.5, 2])
    assert.deepEqual([value('One'), value('Two')], [0x12 * 1e5, 0x22 * 1e5])
  })

  test('source test shows the bytes and the values', () => {
    const { sensors, readings, ...rest } = machine.json('source', 'test', 'engine')
    const rows = (sensors ?? readings ?? Object.values(rest).find(Array.isArray)) as Record<string, unknown>[]
    const row = rows.find(one => one.sensor_id === 'Coolant')!
    assert.equal(row.raw, 'ff9c401605000000')
    assert.ok(isNear(row.value, -50))
  })

  test('an unavailable signal has no value; a link on a missing interface is down with its reason', async () => {
    send('0CF00417#ffffffffffffffff')
    await until(
      'no value',
      () => newest().get('EngSpeed')!.status === 'ERROR' && newest().get('EngSpeed')!.value === null,
    )
    const down = await until('down, and not just tried again', async () => {
      const { nobody } = (await status()).links
      return nobody.state === 'down' && nobody
    })
    assert.match(down.reason, /can7/)
  })

  test('an interface that goes down is a link state, and receives again when it is up', async () => {
    tool('ip', 'link', 'set', 'vcan0', 'down')
    const down = await until('down', async () => {
      const { engine } = (await status()).links
      return engine.state === 'down' && engine
    })
    assert.match(down.reason, /vcan0/)
    tool('ip', 'link', 'set', 'vcan0', 'up')
    await until('up', async () => ['up', 'degraded'].includes((await status()).links.engine.state))
    await until('it is received again', () => {
      send('12C#0177')
      return newest().get('One')?.value === 0x77 * 1e5
    })
  })
})
