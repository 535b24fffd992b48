// The addon on an arm64 kernel with buses: Debian's kernel of the image under the emulator, with virtual CAN, the machine's GPIO chip and two
// serial ports that are wired to each other. This very file runs in it, by the Node that images carry. What that kernel has no device for
// (I2C, SPI, Bluetooth) is tried on x64 only (test/rig).
// Needs: x64 boards image
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { READABLE } from '../../src/native'
import { CAN_EFF, CANFD_BRS, CANFD_FDF, CanFrames, CanRaw, IsotpSocket } from '../../src/native/can'
import { GpioChip, GpioLines } from '../../src/native/gpio'
import { TtyPort, type TtySettings } from '../../src/native/tty'
import { root, tempDir, until } from '../lib/gateway'

const INSIDE = 'OS_NODE_IN_BOARD'
/** an emulated processor beside other work */
const MS = 300_000
const LIBRARIES = 'usr/lib/aarch64-linux-gnu'
const LINKED = ['libdl.so.2', 'libstdc++.so.6', 'libm.so.6', 'libgcc_s.so.1', 'libpthread.so.0', 'libc.so.6']
const LOADER = 'ld-linux-aarch64.so.1'
const MODULES = [
  'net/can/can',
  'net/can/can-raw',
  'net/can/can-isotp',
  'drivers/net/can/dev/can-dev',
  'drivers/net/can/vcan',
]

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

  test('GPIO: a chip tells its lines; an output is read back; a line that is held is refused', async () => {
    const [name] = readdirSync('/dev').filter(one => one.startsWith('gpiochip'))
    const chip = GpioChip.open(`/dev/${name}`)
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

interface Maker {
  baseSystem(root: string, say: () => void): string
  nodeRuntime(root: string, arch: string): string
  cpio(entries: [string, number, (string | Uint8Array)?, [number, number]?][]): Buffer
}
const load = async (path: string): Promise<Maker> => (await import(join(root, 'src/build', path))) as Maker

/** An early system that runs this file and ends. */
async function earlySystem(base: string): Promise<Buffer> {
  const { nodeRuntime } = await load('node-runtime.mjs')
  const { cpio } = await load('image/initramfs.mjs')
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  const read = (path: string): Buffer => readFileSync(join(base, path))
  const names = MODULES.map(path => basename(path))
  const init = `#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
for name in ${names.join(' ')}; do busybox xz -dc /$name.ko.xz >/$name.ko; busybox insmod /$name.ko; done
busybox ip link add vcan0 type vcan
busybox ip link set vcan0 mtu 72 up
export ${INSIDE}=1 OS_NODE_ADDON_DIR=/native OS_NODE_TEST_ROOT=/
node --test-reporter=tap /test.js
echo "ended with $?"
busybox poweroff -f
`
  return cpio([
    ...['bin', 'dev', 'proc', 'sys', 'tmp', 'lib', 'native', 'native/linux-arm64', 'usr', 'usr/lib', LIBRARIES].map(
      (name): [string, number] => [name, 0o040755],
    ),
    ['dev/console', 0o020600, '', [5, 1]],
    ['init', 0o100755, init],
    ['bin/busybox', 0o100755, read('usr/bin/busybox')],
    ['bin/node', 0o100755, readFileSync(join(nodeRuntime(root, 'arm64'), 'node'))],
    [`lib/${LOADER}`, 0o100755, read(`${LIBRARIES}/${LOADER}`)],
    ...LINKED.map((name): [string, number, Buffer] => [`${LIBRARIES}/${name}`, 0o100755, read(`${LIBRARIES}/${name}`)]),
    ...MODULES.map((path, k): [string, number, Buffer] => [
      `${names[k]}.ko.xz`,
      0o100644,
      read(`usr/lib/modules/${release}/kernel/${path}.ko.xz`),
    ]),
    ['native/linux-arm64/os_node.node', 0o100755, readFileSync(join(root, 'dist/native/linux-arm64/os_node.node'))],
    ['test.js', 0o100644, readFileSync(process.argv[1]!)],
  ])
}

if (process.env[INSIDE]) onTheBoard()
else
  test('CAN, GPIO and UART by the addon on an arm64 kernel', async t => {
    const base = (await load('image/system.mjs')).baseSystem(root, () => {})
    const [release] = readdirSync(join(base, 'usr/lib/modules'))
    const dir = tempDir()
    const path = join(dir, 'initramfs')
    writeFileSync(path, await earlySystem(base))
    const wire = join(dir, 'wire.sock')
    const machine = [
      '-M',
      'virt,acpi=off',
      '-cpu',
      'cortex-a72',
      '-m',
      '1024',
      '-nographic',
      '-no-reboot',
      '-nic',
      'none',
    ]
    const ports = ['server=on,wait=off', 'server=off'].flatMap((how, k) => [
      ...['-chardev', `socket,id=wire${k},path=${wire},${how}`],
      ...['-device', `pci-serial,chardev=wire${k}`],
    ])
    const system = [
      '-kernel',
      join(base, 'boot', `vmlinuz-${release}`),
      '-initrd',
      path,
      '-append',
      'console=ttyAMA0 quiet panic=-1',
    ]
    const from = performance.now()
    const child = spawn('qemu-system-aarch64', [...machine, ...ports, ...system], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => child.kill('SIGKILL'))
    let text = ''
    let ended = false
    child.stdout.on('data', chunk => (text += chunk))
    child.once('close', () => (ended = true))
    await until('its end', () => ended, 2 * MS)
    t.diagnostic(`${Math.round((performance.now() - from) / 1000)} s`)
    assert.match(text, /^ended with 0\r?$/m, text)
    assert.match(text, /^# pass 3\r?$/m, text)
  })
