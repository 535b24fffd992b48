// One file for the boards' processors, on an arm64 kernel with buses (arm-machine.ts): the addon alone, then a gateway of dist/os-node.js with a
// source or a medium on each bus. This very file runs in the machine, by arm64 Node 24 and by Debian's armhf nodejs.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { describe, test } from 'node:test'
import { READABLE } from '../../src/native'
import { CAN_EFF, CANFD_BRS, CANFD_FDF, CanFrames, CanRaw, IsotpSocket } from '../../src/native/can'
import { GpioChip, GpioLines } from '../../src/native/gpio'
import { SpiBus } from '../../src/native/spi'
import { TtyPort, type TtySettings } from '../../src/native/tty'
import { until } from '../lib/gateway'
import { INSIDE, onArm } from './arm-machine'
import { oneFile } from './one-file'

const IN_MACHINE = 'OS_NODE_IN_BOARD'
/** an emulated processor beside other work */
const MS = 300_000

/** The machine's own GPIO chip, a PL061. */
const ownChip = (): GpioChip => {
  for (const name of readdirSync('/dev').filter(one => one.startsWith('gpiochip'))) {
    const chip = GpioChip.open(`/dev/${name}`)
    if (chip.info().label.endsWith('.pl061')) return chip
    chip.close()
  }
  throw new Error('no PL061')
}

function onTheBoard(): void {
  test('CAN: classic and FD frames, and a packet of ISO-TP, arrive as they were sent', async () => {
    const frames = new CanFrames()
    const [from, to] = [CanRaw.open('vcan0', { fd: true }), CanRaw.open('vcan0', { fd: true })]
    const heard: string[] = []
    to.watch(READABLE, () => {
      const count = to.receive(frames)
      for (let k = 0; k < count; k++)
        heard.push(`${frames.id(k).toString(16)} ${frames.flags(k)} ${Buffer.from(frames.data(k)).toString('hex')}`)
    })
    const sent = new CanFrames()
    sent.set(0, 0x123, Buffer.from('deadbeef', 'hex'))
    sent.set(1, 0x1abcdef0 + CAN_EFF, Buffer.from('0102030405060708', 'hex'))
    sent.set(2, 0x5a1, Buffer.alloc(64, 0x11), CANFD_FDF | CANFD_BRS)
    assert.equal(from.send(sent, 0, 3), 3)
    await until('the frames', () => heard.length === 3, MS)
    assert.deepEqual(heard, [`123 0 deadbeef`, '9abcdef0 0 0102030405060708', `5a1 5 ${'11'.repeat(64)}`])
    from.close()
    to.close()

    const [one, other] = [
      IsotpSocket.open('vcan0', { txId: 0x7e0, rxId: 0x7e8 }),
      IsotpSocket.open('vcan0', { txId: 0x7e8, rxId: 0x7e0 }),
    ]
    const [slab, lengths] = [new Uint8Array(4096), new Uint32Array(1)]
    let got = 0
    other.watch(READABLE, () => {
      got = other.receive(slab, lengths)
    })
    const packet = Uint8Array.from({ length: 300 }, (_, k) => k)
    assert.equal(one.send(packet), 300)
    await until('the packet', () => got !== 0, MS)
    assert.deepEqual(slab.subarray(0, lengths[0]), packet)
    one.close()
    other.close()
  })

  test('GPIO: a chip lists its lines; an output is read back; a line that is held is refused', async () => {
    const chip = ownChip()
    assert.equal(chip.info().lines, 8)
    const lines = await GpioLines.request(
      chip.path,
      { lines: [5, 6], direction: 'output', initial: [1, 0], consumer: 'os-node' },
      MS,
    )
    assert.equal(await lines.values(MS), 0b01)
    await lines.set(1, 1, MS)
    assert.equal(await lines.values(MS), 0b11)
    assert.equal(chip.line(5).consumer, 'os-node')
    await assert.rejects(GpioLines.request(chip.path, { lines: [5], direction: 'input', consumer: 'other' }, MS), {
      code: 'PORT_BUSY',
    })
    await lines.close()
    chip.close()
  })

  test("SPI: a message of two segments reads what the line says, on the kernel's spidev", async () => {
    const driver = '/sys/bus/platform/drivers/spi_gpio'
    if (!existsSync(driver)) execFileSync('busybox', ['insmod', INSIDE.spi])
    const chip = ownChip()
    for (const level of [1, 0] as const) {
      if (existsSync(`${driver}/spi`)) writeFileSync(`${driver}/unbind`, 'spi')
      const lines = await GpioLines.request(
        chip.path,
        { lines: [2], direction: 'output', initial: [level], consumer: 'miso' },
        MS,
      )
      await lines.close()
      writeFileSync(`${driver}/bind`, 'spi')
      const bus = await SpiBus.open('/dev/spidev0.0')
      const read = new Uint8Array(5)
      assert.equal(await bus.transferAll([{ tx: Uint8Array.of(0x42, 0x17) }, { rx: read }], MS), 7)
      bus.close()
      assert.deepEqual([...read], Array(5).fill(level * 0xff))
    }
    chip.close()
  })

  test('UART: what one port sends the other one reads, at the rate of both', async () => {
    const settings: TtySettings = { baudrate: 115_200, data_bits: 8, parity: 'even', stop_bits: 1, flow: 'none' }
    const ports = await Promise.all(['/dev/ttyS0', '/dev/ttyS1'].map(path => TtyPort.open(path, settings, MS)))
    assert.deepEqual(
      ports.map(port => port.baudrate),
      [115_200, 115_200],
    )
    let text = ''
    const bytes = Buffer.alloc(64)
    const { fd } = ports[1]!
    ports[1]!.watch(() => {
      text += bytes.toString('latin1', 0, readSync(fd, bytes))
    })
    writeSync(ports[0]!.fd, '23.5 Cel\n')
    await until('the line', () => text.includes('\n'), MS)
    assert.equal(text, '23.5 Cel\n')
    for (const port of ports) await port.close()
  })
}

if (process.env[IN_MACHINE]) {
  onTheBoard()
  describe('a gateway of the one file', oneFile)
} else
  test('the addon on each bus of an arm64 kernel, and a gateway of the one file with all of them: arm64 and armv7', async t => {
    const environment = `${IN_MACHINE}=1 OS_NODE_IN_RIG=1 OS_NODE_ADDON_DIR=/native OS_NODE_TEST_ROOT=/`
    const from = performance.now()
    const text = await onArm(process.argv[1]!, environment, 2 * MS)
    t.diagnostic(`${Math.round((performance.now() - from) / 1000)} s`)
    for (const node of ['aarch64', 'armhf']) assert.match(text, new RegExp(`^${node} ended with 0$`, 'm'), text)
    assert.equal(text.match(/^# pass 13$/gm)?.length, 2, text)
    assert.doesNotMatch(text, /# SKIP/)
  })
