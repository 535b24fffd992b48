// A gateway that reads lines of text from serial ports: a satellite receiver, and a device that answers requests. The ports
// are pseudo-terminals, the test plays the devices.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import {
  freePort,
  type LoggedFact,
  type LoggedSensor,
  Machine,
  removeDir,
  sensorsOf,
  tempDir,
  until,
} from '../lib/gateway'
import { type Plug, Ptys } from '../lib/ptys'

const dir = tempDir()
let ptys: Ptys
let machine: Machine
let gps: Plug
let scale: Plug
let timer: NodeJS.Timeout

const SENTENCES = [
  '$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47',
  '$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A',
]

before(async () => {
  ptys = new Ptys()
  gps = await ptys.port(join(dir, 'gps'))
  scale = await ptys.port(join(dir, 'scale'))
  scale.onBytes = bytes => {
    if (bytes.includes('W?\r\n')) scale.write(Buffer.from('ST,GS,+  12.5 kg\r\n'))
  }
  machine = new Machine(join(dir, 'node'), 'run', {
    assigned_id: 7,
    device_id: 'BOAT',
    gateway: {
      log: { commit_interval_ms: 100 },
      sources: [
        { name: 'gps', type: 'nmea', port: gps.path, interval_ms: 200, max_age_ms: 60_000 },
        {
          name: 'scale',
          type: 'line',
          port: scale.path,
          interval_ms: 300,
          poll: 'W?\\r\\n',
          pattern: '^ST,GS,[+]? *(?<weight>-?[0-9.]+) kg',
          channels: { weight: { unit: 'kg', status: [{ above: 10, status: 'ALARM' }] } },
        },
      ],
      uplinks: [{ name: 'nowhere', medium: 'UDP', host: '127.0.0.1', port: 9 }],
    },
  })
  await machine.start(['--port', String(await freePort())])
  timer = setInterval(() => {
    for (const sentence of SENTENCES) gps.write(Buffer.from(`${sentence}\r\n`))
  }, 100)
})
after(async () => {
  clearInterval(timer)
  await machine?.stop('SIGKILL')
  ptys.close()
  removeDir(dir)
})

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the status holds
const status = (): Promise<any> => askControl(machine.dataDir, 'status')
/** The newest reading of a sensor that has a value. The log is read here: a command would block the devices of this test. */
const newest = (id: string): Promise<LoggedSensor> =>
  until(`a value of ${id}`, () =>
    ([...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[])
      .flatMap(sensorsOf)
      .filter(sensor => sensor.id === id && sensor.status !== 'ERROR')
      .at(-1),
  )

test('a position is logged in degrees, other values in their units', async () => {
  const lat = await newest('gps_lat')
  assert.ok(Math.abs(lat.value! - 48.1173) < 1e-9)
  assert.equal(lat.unit, '{deg}')
  assert.ok(Math.abs((await newest('gps_speed')).value! - (22.4 * 1852) / 3600) < 1e-9)
  assert.deepEqual([(await newest('gps_fix')).value, (await newest('gps_satellites')).value], [1, 8])
})

test('a device with requests is queried before each reading; its status follows the value', async () => {
  assert.deepEqual(await newest('scale'), { id: 'scale', status: 'ALARM', unit: 'kg', value: 12.5 })
})

test('source test shows the line and the value', () => {
  const text = machine.run('source', 'test', 'gps', '--json').stdout
  assert.ok(text.includes(JSON.stringify(SENTENCES[0]!.slice(0, -3))), text)
  assert.match(text, /48\.1173/)
})

test('an unplugged port is a link state; after replugging the position returns', async () => {
  await gps.unplug()
  await until('down', async () => (await status()).links.gps.state === 'down')
  await gps.plug()
  await until('up', async () => (await status()).links.gps.state === 'up')
})
