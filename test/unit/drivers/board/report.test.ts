// The report of a board: which parts of the boot configuration count, and what to do for each bus.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { boardNamed } from '../../../../drivers/board'
import { bootConfigOf } from '../../../../drivers/board/bootconfig'
import { boardReport } from '../../../../drivers/board/report'
import { removeDir, tempDir } from '../../../lib/gateway'

test('only the parts of the boot configuration for this board count', () => {
  const of = (text: string, ...sections: string[]) => bootConfigOf(text, sections)
  const text = 'a=1\n[pi3]\nb=1\n[pi4]\nc=1 # why\n[cm4]\n d = 1\n[none]\ne=1\n[pi4]\nf=1\n[all]\n\n#g=1\nh=1\r\n'
  assert.deepEqual(of(text, 'pi4'), { lines: ['a=1', 'c=1', 'h=1'], open: true })
  assert.deepEqual(of(text, 'pi4', 'cm4').lines, ['a=1', 'c=1', 'd=1', 'h=1'])
  assert.deepEqual(of(text).lines, ['a=1', 'h=1'])
  // both conditions must be met, and what only the firmware knows does not count
  assert.deepEqual(of('[gpio4=1]\na=1\n[pi4]\nb=1\n[all]\nc=1\n[PI4]\nd=1', 'pi4'), {
    lines: ['c=1', 'd=1'],
    open: true,
  })
  assert.deepEqual(of('[pi4]\n[pi5]\n', 'pi4'), { lines: [], open: false })
  // every equivalent spelling
  for (const on of ['dtparam=i2c_arm=on,spi', 'dtparam=i2c1=yes\ndtparam=spi=1', 'dtparam=i2c,spi=true'])
    assert.deepEqual(of(on).lines, ['dtparam=i2c_arm=on', 'dtparam=spi=on'])
  assert.deepEqual(of('dtparam=i2c_arm=off,i2c_arm_baudrate=400000').lines, [
    'dtparam=i2c_arm=off',
    'dtparam=i2c_arm_baudrate=400000',
  ])
})

test('the report says for each bus what to do', () => {
  const dir = tempDir()
  const file = (path: string, text = ''): void => {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
  try {
    file('boot/firmware/config.txt', '[all]\ndtparam=spi=on # for the radio\n#dtparam=i2c_arm=on\ndtoverlay=uart3\n')
    file('dev/spidev0.0')
    symlinkSync('ttyAMA1', join(dir, 'dev/serial0'))
    file('dev/ttyAMA1')
    // the port of uart3, which an old kernel names ttyAMA1
    mkdirSync(join(dir, 'sys/class/tty'), { recursive: true })
    symlinkSync('../../devices/platform/fe201600.serial/tty/ttyAMA1', join(dir, 'sys/class/tty/ttyAMA1'))
    mkdirSync(join(dir, 'sys/class/leds/led0'), { recursive: true })
    const ask = (): ReturnType<typeof boardReport> =>
      boardReport({
        board: boardNamed('rpi-4'),
        tree: { model: 'Raspberry Pi 4 Model B Rev 1.4', compatible: [] },
        configured: false,
        root: dir,
        entries: [
          { what: 'source air', options: { bus: '/dev/i2c-1' } },
          { what: 'source a', options: { pin: 'GPIO4' } },
          { what: 'source b', options: { header: 7 } },
          { what: 'source gps', options: { port: '/dev/serial0' } },
        ],
      })
    const bus = (name: string) => ask().buses.find(one => one.name === name)!
    assert.deepEqual([bus('spi0').state, bus('uart3').state, bus('uart3').device], ['ready', 'ready', '/dev/ttyAMA1'])
    assert.deepEqual([bus('uart3').used_by, bus('uart1').used_by], [['source gps'], []])
    assert.deepEqual([bus('i2c1').state, bus('i2c1').used_by], ['missing', ['source air']])
    assert.equal(
      bus('i2c1').todo,
      'add to /boot/firmware/config.txt: dtparam=i2c_arm=on; reboot; then modprobe i2c-dev',
    )
    assert.match(bus('uart5').todo ?? '', /dtoverlay=uart5; reboot/)
    assert.match(bus('can0').todo ?? '', /dtparam=spi=on and dtoverlay=mcp2515-can0,.*, or .*mcp251xfd/)
    // the adapter exists, but its bit rate is not set
    file('sys/class/net/can0/flags', '0x40080\n')
    assert.equal(bus('can0').state, 'missing')
    assert.match(bus('can0').todo ?? '', /^sudo systemctl enable --now os-node-can@can0 .*ip link set can0 up type can/)
    file('sys/class/net/can0/flags', '0x40081\n')
    assert.deepEqual([bus('can0').state, bus('can0').todo], ['ready', undefined])
    rmSync(join(dir, 'sys/class/net/can0'), { recursive: true })
    assert.deepEqual(ask().leds, { ACT: '/sys/class/leds/led0', PWR: null })
    assert.deepEqual(ask().clashes, ['GPIO4: source a and source b and uart3 TXD'])
    file('boot/firmware/config.txt', 'dtparam=i2c_arm=on')
    assert.match(bus('i2c1').todo ?? '', /^sudo modprobe i2c-dev/)
    mkdirSync(join(dir, 'sys/module/i2c_dev'), { recursive: true })
    assert.equal(bus('i2c1').todo, 'reboot')
    // a section for another board; lines appended at the end would apply to that board too
    file('boot/firmware/config.txt', '[pi5]\ndtparam=i2c_arm=on')
    assert.match(bus('i2c1').todo ?? '', /^add to .*config.txt, below a line \[all\]: dtparam=i2c_arm=on; reboot$/)
    file('boot/firmware/config.txt', '[pi4]\ndtparam=i2c_arm=on')
    assert.equal(bus('i2c1').todo, 'reboot')
    // no file yet, or the file of an older system
    rmSync(join(dir, 'boot/firmware/config.txt'))
    assert.equal(ask().boot_config, null)
    assert.equal(bus('i2c1').todo, 'add to /boot/firmware/config.txt: dtparam=i2c_arm=on; reboot')
    file('boot/config.txt')
    assert.equal(ask().boot_config, '/boot/config.txt')
    assert.equal(bus('i2c1').todo, 'add to /boot/config.txt: dtparam=i2c_arm=on; reboot')
  } finally {
    removeDir(dir)
  }
})
