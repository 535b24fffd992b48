// Something on every bus at once: GPIO, I2C, CAN, Modbus RTU and TCP, Bluetooth advertisements, a gateway by radio (LoRa) and
// boards with the C firmware by UART and CAN, all into one gateway, which forwards it by UDP to an upstream. An hour of such
// traffic at ten times its usual speed, in six minutes; OS_NODE_HOUR_SECONDS makes them fewer. In the middle third everything
// is unplugged once. At the end every reading is accounted for, and the gateway is as large as it was after a sixth of it.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import { keyOf, type LoggedFact, Machine, type LoggedSensor, sensorsOf, sleep, until } from '../lib/gateway'
import { Ptys } from '../lib/ptys'
import { inTheRig } from '../lib/rig'
import { assertSame } from '../lib/same'
import { growth, type Sample, Steady } from '../lib/steady'
import { buildModel, Sx127x } from '../lib/sx127x'
import { BOARD_IDS, buildSlave, CAN, DBC, DIR, Field, startSlave } from './field'

const SECONDS = Number(process.env.OS_NODE_HOUR_SECONDS ?? 360)
const WARM_UP = SECONDS / 6
const WEB = 8001
const SLAVE = 1502
/** a tenth of the intervals these sources have by default, or less */
const interval_ms = 100
const log = { commit_interval_ms: 200 }
const air = { region: 'none', frequency_hz: 869_525_000, bandwidth_khz: 125, spreading_factor: 7 }
const physical_status = { lora: true, uart: true, can: true }

/** What the fifth of the record of a fact is told by: the source of a gateway's own facts. */
const SOURCES: Record<string, RegExp> = {
  shed: /^pulses$/,
  chip: /^chip_temperature$/,
  engine: /^Count$/,
  meter: /^energy$/,
  plc: /^h1$/,
  beacon: /^beacon_count$/,
}

buildModel()
buildSlave()
new Ptys().close()

inTheRig(
  () => {
    const field = new Field()
    const steady = new Steady(DIR)
    let near: Sx127x
    let far: Sx127x
    let gateway: Machine
    let upstream: Machine
    let distant: Machine
    let endSlave: () => void

    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON the command gives
    const status = (machine: Machine): Promise<any> => askControl(machine.dataDir, 'status')
    const logged = (machine: Machine): LoggedFact[] =>
      [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]

    before(async () => {
      await field.open()
      endSlave = await startSlave(SLAVE)
      near = await Sx127x.start('spidev0.0')
      far = await Sx127x.start('spidev0.1')
      upstream = new Machine(join(DIR, 'up'), 'serve', {
        device_id: 'UP',
        gateway: { sources: [], receivers: [{ name: 'in', medium: 'UDP', port: 9001 }], log },
        RESOURCES: { transport_status: { udp: true } },
      })
      gateway = new Machine(join(DIR, 'gateway'), 'run', {
        device_id: 'GW',
        gateway: {
          log,
          sources: [
            {
              name: 'shed',
              type: 'gpio',
              interval_ms,
              min_gap_ms: 0,
              pins: [
                { chip: 'shed-pins', line: 0, name: 'pulses', mode: 'counter' },
                { chip: 'shed-pins', line: 1, name: 'door', mode: 'edge' },
              ],
            },
            { name: 'chip', type: 'ds3231', bus: field.i2cPath, interval_ms },
            { name: 'engine', type: 'can', interface: CAN, dbc: DBC, interval_ms },
            {
              name: 'meter',
              type: 'modbus_rtu',
              port: field.meterPort,
              baudrate: 115_200,
              slave: 3,
              interval_ms,
              registers: [{ id: 'energy', address: 0, type: 'u32' }],
            },
            {
              name: 'plc',
              type: 'modbus_tcp',
              host: '127.0.0.1',
              port: SLAVE,
              interval_ms,
              registers: [1, 2, 50].map(address => ({ id: `h${address}`, address })),
            },
            {
              name: 'beacon',
              type: 'bthome',
              address: '00:aa:01:01:00:01',
              interval_ms,
              max_age_ms: 5000,
              channels: { count: {} },
            },
          ],
          receivers: [
            { name: 'radio', medium: 'LoRa', ...near.wiring, ...air },
            { name: 'wire', medium: 'UART', port: field.boardPort },
            { name: 'bus', medium: 'CAN', interface: CAN, peers: [{ aid: 78, ...BOARD_IDS }] },
          ],
          uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9001 }],
        },
        RESOURCES: { physical_status, transport_status: { udp: true } },
      })
      distant = new Machine(join(DIR, 'distant'), 'run', {
        device_id: 'DISTANT',
        assigned_id: 9,
        gateway: {
          log,
          sources: [{ name: 'up', type: 'uptime', interval_ms: 1000 }],
          uplinks: [{ name: 'radio', medium: 'LoRa', ...far.wiring, ...air }],
        },
        RESOURCES: { physical_status: { lora: true } },
      })
      await steady.within(async () => {
        await upstream.start(['--web-port', String(WEB)], WEB)
        await gateway.start([])
      })
      await distant.start([])
      await until('every link is up', async () =>
        Object.values((await status(gateway)).links).every(link => (link as { state: string }).state !== 'opening'),
      )
      field.run()
    })
    after(async () => {
      for (const machine of [distant, gateway, upstream]) await machine?.stop('SIGKILL')
      endSlave?.()
      await near?.stop()
      await far?.stop()
      await field.close()
    })

    test('an hour', async t => {
      for (let k = 0; k < SECONDS; k += 5) {
        await sleep(5000)
        for (const [name, machine] of Object.entries({ gateway, upstream, distant })) steady.sample(name, machine.pid!)
      }
      t.diagnostic(JSON.stringify((await status(gateway)), null, 1))
      const sent = field.sent
      t.diagnostic(JSON.stringify({ pulses: sent.pulses, door: sent.door.length, degrees: sent.degrees.length, frames: sent.frames, answers: sent.answers, adv: sent.advertised.length, uart: sent.uart.length, isotp: sent.isotp.length }))
      for (const name of ['gateway', 'upstream', 'distant']) {
        const s = steady.of(name)
        t.diagnostic(`${name} ${JSON.stringify(s[0])} ${JSON.stringify(s.at(-1))}`)
      }
      const facts = logged(gateway)
      t.diagnostic(facts.length + JSON.stringify(facts.slice(-12), null, 0))
    })
  },
  { memory: 2048, seconds: SECONDS + 240 },
)
