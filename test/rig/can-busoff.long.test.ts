// A real driver's bus-off (R16), under qemu with two SJA1000 controllers on one bus and Debian's kernel: bit rates, the bus off,
// shown, restarted by restart-ms, and packets again. And the module can-isotp missing.
//
// The emulated controllers make no errors. So for a moment another chip answers at can0's address: a 16550 on the same
// interrupt line, whose registers read as an SJA1000's do when the bus is off (status 0xC1, interrupt 0x04, and nothing where the
// error counters are: 255). The driver sees what it would see of a broken bus, and does everything else by itself.
// Needs: qemu
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, realpathSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { canDriver } from '../../drivers/can'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import type { LinkState } from '../../src/links/contracts'
import { Supervisor } from '../../src/links/supervisor'
import { canLink } from '../../src/native/can-link'
import { root, tempDir, until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

const PCI = '/sys/bus/pci/devices'
const hex = (path: string): number => Number(readFileSync(path, 'latin1'))
/** start of the ports of a device's BAR */
const base = (device: string, bar: number): number =>
  Number(readFileSync(`${device}/resource`, 'latin1').split('\n')[bar]!.split(' ')[0])

function put(path: string, at: number, value: number, size: 1 | 4): void {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  const fd = openSync(path, 'r+')
  writeSync(fd, bytes, 0, size, at)
  closeSync(fd)
}

/** until the kernel restarts the bus: by then the chip is restored, and a packet was refused */
const RESTART_MS = 6000

/** The 16550's registers, and their meaning for the driver of an SJA1000. */
const IER = 1
const FCR = 2 // read: IIR, the status register
const LCR = 3 // interrupts
const MCR = 4 // interrupt enable

/** Lets the 16550 answer for the controller of `name` until the driver has seen it; `during` waits for that. */
async function breakBus(name: string, during: () => Promise<unknown>): Promise<void> {
  const controller = realpathSync(`/sys/class/net/${name}/device`)
  const slot = readdirSync(PCI).find(at => hex(`${PCI}/${at}/vendor`) === 0x1b36 && hex(`${PCI}/${at}/device`) === 2)!
  const uart = `${PCI}/${slot}`
  assert.equal(hex(`${uart}/irq`), hex(`${controller}/irq`))
  if (readdirSync('/sys/bus/pci/drivers/serial').includes(slot))
    writeFileSync('/sys/bus/pci/drivers/serial/unbind', slot)
  const [its, ours] = [base(controller, 1), base(uart, 0)]
  put(`${uart}/config`, 4, 1, 1) // it answers at its ports
  put('/dev/port', ours + IER, 0, 1)
  put('/dev/port', ours + FCR, 1, 1)
  put('/dev/port', ours + LCR, 4, 1)
  put('/dev/port', ours + MCR, 0x0b, 1)
  put(`${controller}/config`, 0x14, 0xf001, 4)
  put(`${uart}/config`, 0x10, its | 1, 4)
  try {
    put('/dev/port', its + IER, 2, 1) // transmitter empty: it interrupts
    await during()
  } finally {
    put('/dev/port', its + IER, 0, 1)
    put(`${uart}/config`, 0x10, ours | 1, 4)
    put(`${controller}/config`, 0x14, its | 1, 4)
  }
}

inTheRig(
  () => {
    const states: string[] = []
    const supervisor = new Supervisor({ logger: silentLogger, backoff: { minMs: 200, maxMs: 500 } })
    supervisor.onChange((link, state: LinkState) => {
      if (link === 'near') states.push('reason' in state ? `${state.state}: ${state.reason}` : state.state)
    })
    after(() => supervisor.stop())
    const context = { clock: systemClock, logger: silentLogger }
    const near = canDriver.create('near', { interface: 'can0', peers: [{ tx_id: 0x7e0, rx_id: 0x7e8 }] }, context)
    const farPeers = [{ tx_id: 0x7e8, rx_id: 0x7e0 }]
    const far = canDriver.create('far', { mode: 'listen', interface: 'can1', peers: farPeers }, context)
    const got: string[] = []
    far.onPacket(packet => got.push(Buffer.from(packet).toString()))
    /** The actions of the unit os-node-can@, with the settings of its file. */
    const file = join(tempDir(), 'can.conf')
    const canUp = (name: string, settings: Record<string, string>): { status: number | null; stderr: string } => {
      writeFileSync(
        file,
        Object.entries(settings)
          .map(([key, value]) => `${key}=${value}\n`)
          .join(''),
      )
      return spawnSync(join(root, 'rootfs/usr/lib/os-node/can-up'), [name, '/etc/os-node/none.conf', file], {
        encoding: 'utf8',
      })
    }
    const details = (name: string): string => tool('ip', '-details', 'link', 'show', name)
    const state = (): string => supervisor.get('near')!.state.state

    test('without the module the medium is down and names it; with it, and a bit rate, it is up', async () => {
      supervisor.add(near)
      await until('down', () => state() === 'down')
      assert.match(states.at(-1)!, /^down: can0 is down: systemctl start os-node-can@can0/)
      assert.deepEqual(canUp('can1', { LISTEN_ONLY: 'yes' }).stderr, '')
      assert.match(details('can1'), /LISTEN-ONLY/)
      for (const name of ['can0', 'can1'])
        assert.deepEqual(canUp(name, { BITRATE: '250000', RESTART_MS: String(RESTART_MS), DBITRATE: '' }).stderr, '')
      assert.doesNotMatch(details('can1'), /LISTEN-ONLY/, 'what is taken back is off again')
      assert.equal(readFileSync('/sys/class/net/can0/tx_queue_len', 'latin1'), '1000\n')
      await until('no module', () => states.at(-1)!.includes('modprobe'))
      assert.equal(
        states.at(-1),
        'down: the kernel has no ISO-TP: modprobe can-isotp (and add can-isotp to /etc/modules)',
      )
      tool('insmod', `${process.env.RIG_MODULES}/can-isotp.ko`)
      supervisor.add(far)
      await until('up', () => state() === 'up')
      const { kind, bitrate, restart_ms, state: bus, up, running } = canLink('can0')
      assert.deepEqual(
        [kind, bitrate, restart_ms, bus, up, running],
        ['can', 250_000, RESTART_MS, 'error-active', true, true],
      )
    })

    test('invalid settings of the bus are refused by name, and change nothing', () => {
      const wrong = (settings: Record<string, string>): string => {
        const { status, stderr } = canUp('can0', settings)
        assert.equal(status, 2)
        return stderr
      }
      assert.match(wrong({ BITRATE: '2000000' }), /can0: BITRATE is no number from 1000 to 1000000: 2000000/)
      assert.match(wrong({ BITRATE: '$(reboot)' }), /BITRATE is no number/)
      assert.match(canUp('can9', { LD_PRELOAD: '/none' }).stderr, /ignored: LD_PRELOAD\n.*no such interface/)
      assert.match(wrong({ BITRATE: '500000', DBITRATE: '1000' }), /DBITRATE is no number from 500000/)
      assert.match(wrong({ RESTART_MS: '-1' }), /RESTART_MS/)
      assert.match(wrong({ SAMPLE_POINT: '875' }), /SAMPLE_POINT is no part of a bit/)
      assert.match(wrong({ LISTEN_ONLY: 'perhaps' }), /LISTEN_ONLY is yes or no/)
      assert.match(canUp('can9', {}).stderr, /can9: there is no such interface/)
      assert.equal(canLink('can0').bitrate, 250_000)
      assert.equal(state(), 'up')
    })

    test('packets are sent over the controllers', async () => {
      const packet = Buffer.from('x'.repeat(500))
      assert.ok(await near.send(packet))
      await until('it is present', () => got.length === 1)
      assert.equal(got[0], packet.toString())
      assert.equal(near.counters.detail!.bitrate, 250_000)
    })

    test('R16: bus-off is shown, the kernel restarts the bus, and packets are sent again', async () => {
      states.length = 0
      await breakBus('can0', () => until('the driver sees it', () => canLink('can0').state === 'bus-off'))
      assert.equal(await near.send(Buffer.from('lost on a bus that is off')), false)
      await until('shown', () => states.length > 0)
      assert.equal(states[0], `degraded: can0 is bus-off; the kernel restarts it after ${RESTART_MS} ms`)
      await until('restarted', () => state() === 'up')
      const link = canLink('can0')
      assert.deepEqual([link.state, link.bus_offs, link.restarts], ['error-active', 1, 1])
      assert.ok(await near.send(Buffer.from('and resumes')))
      await until('it is present', () => got.at(-1) === 'and resumes')
      const { bus_offs, restarts, error_frames } = near.counters.detail!
      assert.deepEqual([bus_offs, restarts], [1, 1])
      assert.ok(error_frames! >= 2)
      console.log(`# ${states.join(' → ')}`)
    })

    test('a bus-off without restart loses the link, which returns when the bus is restarted', async () => {
      tool('ip', 'link', 'set', 'can0', 'down')
      await until('down', () => state() === 'down')
      tool('ip', 'link', 'set', 'can0', 'up', 'type', 'can', 'restart-ms', '0')
      await until('up', () => state() === 'up')
      states.length = 0
      await breakBus('can0', () => until('the driver sees it', () => canLink('can0').state === 'bus-off'))
      await until('lost', () => state() === 'down')
      assert.match(
        states.at(-1)!,
        /^down: can0 is bus-off and not restarted: ip link set can0 type can restart, and RESTART_MS/,
      )
      tool('ip', 'link', 'set', 'can0', 'type', 'can', 'restart')
      await until('back', () => state() === 'up')
      assert.ok(await near.send(Buffer.from('by hand')))
    })
  },
  { stock: true },
)
