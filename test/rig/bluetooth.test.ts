// Advertisements over a virtual radio: a real gateway receives them on hci0, and logs the values that the formats define.
// Then another program stops the scan, the air goes silent, and the adapter is unplugged and replugged (R20).
// Needs: bluetooth analyze
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createCipheriv } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { HciSocket } from '../../drivers/bluetooth/hci-socket'
import { exportFacts } from '../../src/log'
import {
  Advertiser,
  adapterAddress,
  manufacturerDataOf,
  plugInAdapters,
  serviceDataOf,
  unplugAdapters,
} from '../lib/ble'
import { askControl } from '../lib/control'
import { type LoggedFact, type LoggedSensor, Machine, root, sensorsOf, until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

/** no permission to open an adapter, like the service of the packages */
const UNPRIVILEGED = ['setpriv', '--bounding-set=-net_admin,-net_raw', '--inh-caps=-net_admin,-net_raw']

const KEY = '231d39c1d7cc1ab1aee224cd096db932'
const address = adapterAddress(1)
const timing = { interval_ms: 300, max_age_ms: 3000, silence_ms: 1500 }

/** As a device with that key makes it (bthome.io/encryption). */
function encrypted(objects: string, counter: number): string {
  const tail = Buffer.alloc(4)
  tail.writeUInt32LE(counter)
  const nonce = Buffer.concat([Buffer.from(`${address.replaceAll(':', '')}d2fc41`, 'hex'), tail])
  const cipher = createCipheriv('aes-128-ccm', Buffer.from(KEY, 'hex'), nonce, { authTagLength: 4 })
  const text = cipher.update(Buffer.from(objects, 'hex'))
  cipher.final()
  return Buffer.concat([Buffer.of(0x41), text, tail, cipher.getAuthTag()]).toString('hex')
}

inTheRig(
  () => {
    const machine = new Machine('/run/ble', 'run', {
      device_id: 'HUB',
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: [
          { name: 'plain', type: 'bthome', address, channels: { temperature: {}, humidity: {} }, ...timing },
          { name: 'locked', type: 'bthome', address, bind_key: KEY, channels: { battery: {} }, ...timing },
          { name: 'tag', type: 'ruuvi', address, ...timing },
          { name: 'tlm', type: 'eddystone', address, ...timing },
          {
            name: 'beacon',
            type: 'ibeacon',
            uuid: 'e2c56db5-dffb-48d2-b060-d0f5a71096e0',
            channels: {
              rssi: { enabled: false },
              distance: { enabled: false },
              major: {},
              minor: {},
              measured_power: {},
            },
            away_ms: 1000,
            ...timing,
          },
        ],
      },
    })
    let device: Advertiser
    after(async () => {
      device?.close()
      await machine.stop()
      await unplugAdapters()
    })

    /** The newest reading of a sensor with that status. */
    const newest = (id: string): LoggedSensor | undefined =>
      [...exportFacts(join(machine.dataDir, 'log'), 1)]
        .flatMap(fact => sensorsOf(fact as unknown as LoggedFact))
        .filter(sensor => sensor.id === id)
        .at(-1)
    const logged = (id: string, value: number | null): Promise<unknown> =>
      until(`${id} is ${value}`, () => {
        const seen = newest(id)
        return seen && (seen.value === value || (value !== null && Math.abs((seen.value ?? 1e9) - value) < 1e-6))
          ? seen
          : undefined
      }).catch(async error => {
        throw new Error(
          `${error.message} ${JSON.stringify(await link(id.split('_')[0]!))} ${machine.output.slice(-1500)}`,
        )
      })
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
    const link = async (name: string): Promise<any> => (await askControl(machine.dataDir, 'status')).links[name]

    test('without an adapter the links are down and say what to do', async () => {
      await machine.start([])
      const { state, reason, hint } = await until('down', async () => {
        const seen = await link('plain')
        return seen.state === 'down' ? seen : undefined
      })
      assert.deepEqual([state, reason], ['down', 'this machine has no Bluetooth adapter'])
      assert.match(hint, /ls \/sys\/class\/bluetooth/)
      await machine.stop()
    })

    test('the advertised values of devices are in the log', async () => {
      await plugInAdapters(2)
      await machine.start([])
      device = await Advertiser.on(1)
      device.send(serviceDataOf(0xfcd2, '4002ca0903bf13'))
      await logged('plain_temperature', 25.06 + 273.15)
      await logged('plain_humidity', 50.55)
      device.send(serviceDataOf(0xfcd2, encrypted('0161', 7)))
      await logged('locked_battery', 97)
      device.send(manufacturerDataOf(0x0499, '0512fc5394c37c0004fffc040cac364200cdcbb8334c884f'))
      await logged('tag_temperature', 24.3 + 273.15)
      await logged('tag_pressure', 100_044)
      device.send(serviceDataOf(0xfeaa, '20000bb8198000000064000003e8'))
      await logged('tlm_battery', 3)
      await logged('tlm_temperature', 25.5 + 273.15)
      await logged('tlm_uptime', 100)
      device.send(manufacturerDataOf(0x004c, '0215e2c56db5dffb48d2b060d0f5a71096e000010002c5'))
      await logged('beacon_presence', 1)
      await logged('beacon_minor', 2)
    })

    test('a beacon that is gone is reported away', async () => {
      device.send(serviceDataOf(0xfcd2, '4002ca0903bf13'))
      await logged('beacon_presence', 0)
    })

    test('after another program stops a scan or resets an adapter the gateway scans again', async () => {
      for (const command of [
        ['0x08', '0x000c', '00', '00'],
        ['0x03', '0x0003'],
      ]) {
        const before = (await link('plain')).detail
        tool('hcitool', '-i', 'hci0', 'cmd', ...command)
        await until('it is received again', async () => {
          const { disturbed, advertisements } = (await link('plain')).detail
          return disturbed > before.disturbed && advertisements > before.advertisements + 3
        }).catch(async error => {
          throw new Error(
            `${command}: ${error.message} ${JSON.stringify(before)} ${JSON.stringify((await link('plain')).detail)}`,
          )
        })
      }
    })

    test('R20: silence restarts the scan, then resets the adapter, then reopens the library', async () => {
      const before = (await link('plain')).detail
      device.silence()
      await until('all three steps', async () => {
        const { detail } = await link('plain')
        return ['scan_restarts', 'adapter_resets', 'reopened'].every(step => detail[step] > before[step])
      })
      device.send(serviceDataOf(0xfcd2, '4002260a03bf13'))
      await logged('plain_temperature', 25.98 + 273.15)
    })

    test('an unplugged adapter is a link state, and receives again when it returns', async () => {
      device.close()
      await unplugAdapters()
      const { reason } = await until('down', async () => {
        const seen = await link('plain')
        return seen.state === 'down' ? seen : undefined
      })
      assert.match(reason, /hci0|no Bluetooth adapter/)
      await plugInAdapters(2)
      device = await Advertiser.on(1)
      device.send(serviceDataOf(0xfcd2, '4002280a03bf13'))
      await logged('plain_temperature', 26 + 273.15)
    })

    test('a gateway without permission gets the adapter from hci-open, also after it was unplugged; one in use is reported', async t => {
      await machine.stop()
      const service = new Machine('/run/ble', 'run', JSON.parse(readFileSync(machine.config, 'utf8')), UNPRIVILEGED)
      const down = (reason: RegExp) =>
        until(String(reason), async () => {
          const { reason: said } = (await askControl(service.dataDir, 'status')).links.plain
          if (!reason.test(said)) throw new Error(said)
          return true
        })
      t.after(() => service.stop())
      await service.start([])
      await down(/no right to use hci0/)
      await service.stop()
      const program = join(root, 'dist/native', `linux-${process.arch}`, 'hci-open')
      const listen = ['--listen=/run/os-node-hci', '--seqpacket', '--accept', '--inetd', program]
      const systemd = spawn('systemd-socket-activate', listen, { stdio: 'ignore' })
      t.after(() => systemd.kill())
      // another program has the channel
      const holder = new HciSocket()
      tool('hciconfig', 'hci0', 'down')
      holder.bindUser(0)
      await service.start([])
      await down(/hci-open could not open hci0: it is in use by node \(\d+\)/)
      holder.stop()
      device.send(serviceDataOf(0xfcd2, '40022a0a03bf13'))
      await logged('plain_temperature', 26.02 + 273.15)
      device.close()
      await unplugAdapters()
      await down(/hci0|no Bluetooth adapter/)
      await plugInAdapters(2)
      device = await Advertiser.on(1)
      device.send(serviceDataOf(0xfcd2, '40022c0a03bf13'))
      await logged('plain_temperature', 26.04 + 273.15)
    })
  },
  { seconds: 600 },
)
