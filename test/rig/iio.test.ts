// The kernel's IIO: a converter of its dummy driver, set by one file and read through a complete gateway by the others.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { askControl } from '../lib/control'
import { Machine, removeDir, sensorsOf, tempDir, until } from '../lib/gateway'
import { inTheRig } from '../lib/rig'

const MADE = '/sys/kernel/config/iio/devices/dummy/probe'

inTheRig(() => {
  const dir = tempDir()
  const sources = [{ name: 'converter', type: 'iio', interval_ms: 200 }]
  const gateway = new Machine(dir, 'run', { device_id: 'GW', gateway: { sources, log: { commit_interval_ms: 100 } } })
  let device = ''
  const status = () => askControl(gateway.dataDir, 'status')

  before(async () => {
    mkdirSync(MADE)
    const devices = '/sys/bus/iio/devices'
    const name = await until('the device', () => readdirSync(devices).find(entry => entry.startsWith('iio:device')))
    device = join(devices, name)
    await gateway.start(['--port', '8100'])
  })
  after(async () => {
    await gateway.stop('SIGKILL')
    removeDir(dir)
  })

  test('the values of the converter are in the log, with offset and scale of the driver', async () => {
    const number = (file: string): number => Number(readFileSync(join(device, file), 'utf8'))
    const [raw, offset, scale] = ['raw', 'offset', 'scale'].map(what => number(`in_voltage0_${what}`))
    assert.ok(raw! > 0 && offset! > 0 && scale! < 1, 'a raw value that is not the value')
    await until('committed facts', async () => (await status()).log.committed_seq > 5)
    const sensors = sensorsOf(gateway.logFacts().at(-1)!)
    const seen = sensors.find(({ id }) => id.endsWith('voltage0'))!
    assert.deepEqual([seen.status, seen.unit], ['OK', 'V'])
    assert.ok(Math.abs(seen.value! - ((raw! + offset!) * scale!) / 1000) < 1e-9, `${seen.value}`)
    assert.ok(sensors.length > 3, 'its other channels too')
  })

  test('a device that vanishes is a link state, and is read again when it returns', async () => {
    rmdirSync(MADE)
    await until('it is gone', async () => (await status()).links.converter.state === 'down')
    mkdirSync(MADE)
    const { facts } = (await status()).intake
    await until('it is read again', async () => (await status()).intake.facts > facts + 2)
  })
})
