// A gateway upstream over a real USB serial driver (CDC-ACM): the plug is pulled under traffic, the kernel gives the port
// another number, the far end stops reading. Nothing is lost, and the port is found again by its id.
import assert from 'node:assert/strict'
import { closeSync, constants, openSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { askControl } from '../lib/control'
import { keyOf, Machine, sleep, until } from '../lib/gateway'
import { inTheRig } from '../lib/rig'
import { UsbSerial } from '../lib/usbserial'

const DIR = '/run/serial'
const RESOURCES = { physical_status: { uart: true } }
const log = { commit_interval_ms: 100 }

inTheRig(
  () => {
    const usb = new UsbSerial('A1')
    const up = new Machine(join(DIR, 'up'), 'serve', {
      gateway: { receivers: [{ name: 'serial', medium: 'UART', port: usb.far, baudrate: 921_600 }], log },
      RESOURCES,
    })
    const gw = new Machine(join(DIR, 'gw'), 'run', {
      device_id: 'GW',
      gateway: {
        sources: ['uptime', 'memory', 'network'].map((type, k) => ({ name: type, type, interval_ms: 100 + 9 * k })),
        uplinks: [{ name: 'up', medium: 'UART', port: usb.id, baudrate: 921_600, full_every: 20 }],
        log,
      },
      RESOURCES,
    })
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the status holds
    const status = (of: Machine): Promise<any> => askControl(of.dataDir, 'status')
    const acked = async (): Promise<number> => (await status(gw)).uplinks.up?.acked ?? 0
    const goesOn = async (): Promise<void> => {
      const before = await acked()
      await until('packets are acknowledged', async () => (await acked()) > before + 5, 30_000).catch(async error => {
        const links = [(await status(gw)).links.up, (await status(up)).links.serial]
        throw new Error(
          `${error.message}\n${JSON.stringify(links)}\n${gw.output.slice(-2000)}\n${up.output.slice(-2000)}`,
        )
      })
    }
    const descriptors = (of: Machine): number => readdirSync(`/proc/${of.pid}/fd`).length

    before(async () => {
      await usb.plug()
      await up.start(['--host', '127.0.0.1', '--port', '8080', '--web-port', '8001'])
      await gw.start(['--port', '8002'])
      await goesOn()
    })
    after(async () => {
      await gw.stop('SIGKILL')
      await up.stop('SIGKILL')
    })

    test('the plug is pulled and put back, five times: told, and open again within two seconds', async t => {
      const before = descriptors(gw)
      const times: number[] = []
      for (let k = 0; k < 5; k++) {
        await usb.unplug()
        const down = await until('down', async () => {
          const state = (await status(gw)).links.up
          return state.state === 'down' && state
        })
        assert.match(down.reason, /unplugged|no serial port/)
        await usb.plug()
        const start = performance.now()
        const opens = down.opens as number
        await until(
          'open',
          async () => (await status(gw)).links.up.opens > opens || (await status(gw)).links.up.state === 'opening',
        )
        times.push(performance.now() - start)
        await goesOn()
      }
      t.diagnostic(`open ${times.map(ms => ms.toFixed(0)).join(', ')} ms after the plug was in`)
      assert.ok(Math.max(...times) < 2000)
      assert.ok(descriptors(gw) <= before + 2, `${descriptors(gw)} descriptors, ${before} before`)
    })

    test('somebody holds the old number, so the adapter gets another: it is followed by its id', async () => {
      const device = usb.device!
      const holder = openSync(device, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK)
      await usb.unplug()
      const now = await usb.plug()
      assert.notEqual(now, device)
      await goesOn()
      closeSync(holder)
    })

    test('the far end is dead for a while: the link waits, and nothing of it is lost', async () => {
      await up.stop('SIGKILL')
      await sleep(4000)
      await up.start(['--host', '127.0.0.1', '--port', '8080', '--web-port', '8001'])
      await goesOn()
    })

    test('in the end both logs hold the same facts, each once', async () => {
      await until('all is acknowledged', async () => {
        const { log, forwarding } = await status(gw)
        return forwarding.cursor >= log.committed_seq - 5
      })
      await gw.stop()
      const there = up
        .logFacts()
        .filter(({ id }) => id === 'GW')
        .map(keyOf)
      assert.equal(new Set(there).size, there.length)
      const sent = gw.logKeys()
      const missing = sent.filter(key => !there.includes(key))
      // the last of them may be on its way when it is stopped
      assert.ok(missing.length <= 10, `${missing.length} of ${sent.length} are missing`)
      for (const key of missing) assert.ok(sent.indexOf(key) >= sent.length - 12, key)
    })
  },
  { memory: 1024, seconds: 200 },
)
