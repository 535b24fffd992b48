// The board files contain facts about real boards: this checks what can be checked without a board.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import * as v from 'valibot'
import {
  BOARDS,
  type BoardBus,
  boardNamed,
  detectBoard,
  deviceTree,
  GENERIC,
  headerPins,
  type PinWorld,
  pinSpec,
  resolveIn,
} from '../../../../drivers/board'
import { boardReport } from '../../../../drivers/board/report'
import { usesOf } from '../../../../drivers/board/uses'
import { BOARD_NAMES } from '../../../../src/config/fragments/gateway'
import { OsError } from '../../../../src/lib/errors'
import type { BoardReport } from '../../../../src/links/hardware'
import { removeDir, root, tempDir } from '../../../lib/gateway'

const KNOWN = BOARDS.filter(board => board !== GENERIC)
const code = (wanted: string, text: RegExp) => (error: unknown) =>
  error instanceof OsError && error.code === wanted && text.test(error.message)

/** Power and ground of every board with the 40-pin header. */
const POWER: Record<string, number[]> = { '3V3': [1, 17], '5V': [2, 4], GND: [6, 9, 14, 20, 25, 30, 34, 39] }

test('every board has a file, and the configuration knows all boards', () => {
  const files = readdirSync(join(root, 'board'))
    .filter(name => name.endsWith('.json'))
    .map(name => name.slice(0, -5))
  assert.deepEqual(BOARDS.map(board => board.name).sort(), files.sort())
  assert.deepEqual([...BOARD_NAMES].sort(), ['auto', ...files].sort())
})

test('a file based on another has its header, functions and buses, and its own names', () => {
  for (const [name, like] of [
    ['cm4', 'rpi-4'],
    ['rpi-zero-2-w', 'rpi-3'],
  ]) {
    const [own, other] = [boardNamed(name!), boardNamed(like!)]
    for (const part of ['header', 'functions', 'buses', 'gpio', 'boot_config'] as const)
      assert.deepEqual(own[part], other[part], `${name} ${part}`)
    for (const part of ['name', 'title', 'model', 'compatible'] as const)
      assert.notDeepEqual(own[part], other[part], `${name} ${part}`)
    assert.ok(!('like' in own))
  }
  assert.deepEqual(boardNamed('rpi-zero-2-w').leds, { ACT: ['ACT', 'led0'] })
  const bus = (board: string, wanted: string) => boardNamed(board).buses.find(({ name }) => name === wanted)!
  assert.deepEqual(bus('rpi-3', 'uart0'), { ...bus('rpi-4', 'uart0'), address: '3f201000.serial' })
  assert.equal(bus('rpi-5', 'uart2').note, undefined, 'a bus with a kind takes nothing')
})

for (const board of KNOWN) {
  test(`${board.name}: 40 pins, power and ground in the right positions, every GPIO from 0 to 27 once`, () => {
    const pins = headerPins(board)
    assert.equal(pins.length, 40)
    for (const [name, places] of Object.entries(POWER))
      assert.deepEqual(
        pins.filter(pin => pin.name === name).map(pin => pin.header),
        places,
      )
    const gpios = pins.flatMap(pin => pin.gpio ?? [])
    assert.deepEqual(
      gpios.sort((a, b) => a - b),
      Array.from({ length: 28 }, (_, k) => k),
    )
    assert.ok(board.gpio.lines >= 28 && board.gpio.labels.length > 0)
    // pins that any documentation of these boards lists
    const at = (name: string): number | undefined => pins.find(pin => pin.name === name)?.header
    assert.deepEqual(
      [at('GPIO2'), at('GPIO3'), at('GPIO14'), at('GPIO17'), at('GPIO25'), at('GPIO21')],
      [3, 5, 8, 11, 22, 40],
    )
  })

  test(`${board.name}: a bus is on header pins that support it, and names what enables it`, () => {
    assert.equal(new Set(board.buses.map(bus => bus.name)).size, board.buses.length)
    for (const { name, kind, pins, enable, device, address } of board.buses) {
      for (const [role, pin] of Object.entries(pins)) {
        const functions = board.functions[pin]
        assert.ok(functions, `${name}: ${pin} is on no header`)
        if (kind === 'i2c' || kind === 'spi' || kind === 'uart')
          assert.ok(
            functions.includes(`${name.toUpperCase()}_${role}`),
            `${name} ${role} on ${pin}: ${functions.join()}`,
          )
      }
      assert.ok(enable.length > 0)
      for (const line of enable.flat())
        assert.match(line, /^(dtparam=\w+=on|dtoverlay=[a-z0-9-]+(,[\w=-]+)*|enable_uart=1)$/)
      assert.match(device, /^(\/dev\/[\w.-]+|\/sys\/.+|can\d)$/)
      if (address) assert.match(address, /^[0-9a-f]+\.serial$/)
    }
    for (const needed of ['i2c1', 'spi0', 'can0', 'w1']) assert.ok(board.buses.some(bus => bus.name === needed))
    assert.ok('ACT' in board.leds)
  })
}

test('the three functions shown for a pin are those of the buses', () => {
  for (const board of KNOWN) {
    const tree = { model: '', compatible: [] }
    const { pins } = boardReport({ board, tree, configured: true, entries: [], root: '/nowhere' })
    for (const { name, kind, pins: of } of board.buses.filter(({ kind }) => /i2c|spi|uart/.test(kind)))
      for (const [role, pin] of Object.entries(of)) {
        const { functions } = pins.find(one => one.name === pin)!
        const wanted = `${name.toUpperCase()}_${role}`
        assert.ok(functions.slice(0, 3).includes(wanted), `${board.name} ${kind} ${pin}: ${functions.join()}`)
        assert.deepEqual([...functions].sort(), [...board.functions[pin]!].sort())
      }
  }
})

test('a board is detected by its device tree, or by model where the tree has another name; otherwise it is generic', () => {
  const dir = tempDir()
  try {
    const tree = (model: string, ...compatible: string[]): string => {
      const base = join(dir, 'proc/device-tree')
      mkdirSync(base, { recursive: true })
      writeFileSync(join(base, 'model'), `${model}\0`)
      writeFileSync(join(base, 'compatible'), compatible.map(name => `${name}\0`).join(''))
      return detectBoard(deviceTree(dir)).name
    }
    assert.equal(tree('Raspberry Pi Zero 2 W Rev 1.0', 'raspberrypi,model-zero-2-w', 'brcm,bcm2837'), 'rpi-zero-2-w')
    assert.equal(tree('Raspberry Pi 3 Model B Plus Rev 1.3', 'raspberrypi,3-model-b-plus', 'brcm,bcm2837'), 'rpi-3')
    assert.equal(tree('Raspberry Pi 4 Model B Rev 1.4', 'raspberrypi,4-model-b', 'brcm,bcm2711'), 'rpi-4')
    assert.equal(tree('Raspberry Pi Compute Module 4 Rev 1.1', 'raspberrypi,4-compute-module', 'brcm,bcm2711'), 'cm4')
    assert.equal(tree('Raspberry Pi 5 Model B Rev 1.0', 'raspberrypi,5-model-b', 'brcm,bcm2712'), 'rpi-5')
    assert.equal(tree('Raspberry Pi 5 Model B Rev 9', 'someone,else'), 'rpi-5')
    assert.equal(tree('Radxa ROCK 5B', 'radxa,rock-5b', 'rockchip,rk3588'), 'generic')
    assert.equal(detectBoard(deviceTree(join(dir, 'nowhere'))).name, 'generic')
    assert.throws(() => boardNamed('rpi-9'), code('CONFIG_INVALID', /rpi-9/))
  } finally {
    removeDir(dir)
  }
})

test('a pin is found by name, header position, chip and label; otherwise the error says why', () => {
  const chips = [
    { path: '/dev/gpiochip0', name: 'gpiochip0', label: 'gpio-brcmstb@107d508500', lines: 32 },
    { path: '/dev/gpiochip4', name: 'gpiochip4', label: 'pinctrl-rp1', lines: 54 },
    { path: '/dev/gpiochip5', name: 'gpiochip5', label: 'usb', lines: 8 },
    { path: '/dev/gpiochip6', name: 'gpiochip6', label: 'usb', lines: 8 },
  ]
  const names: Record<string, string[]> = { '/dev/gpiochip5': ['PUMP', 'BOTH'], '/dev/gpiochip6': ['LAMP', 'BOTH'] }
  const lineNamed = (path: string, name: string): number | null => {
    const line = names[path]?.indexOf(name) ?? -1
    return line < 0 ? null : line
  }
  const pi5: PinWorld = { board: boardNamed('rpi-5'), chips: () => chips, lineNamed }
  const pc: PinWorld = { ...pi5, board: GENERIC }
  const at = (chip: number, line: number, name: string) => ({ chip: `/dev/gpiochip${chip}`, line, name })
  assert.deepEqual(resolveIn(pi5, 'GPIO17'), at(4, 17, 'GPIO17'))
  assert.deepEqual(resolveIn(pi5, { header: 11 }), at(4, 17, 'GPIO17'))
  assert.deepEqual(resolveIn(pi5, { pin: 'PUMP' }), at(5, 0, 'PUMP'))
  assert.deepEqual(resolveIn(pi5, { chip: 'pinctrl-rp1', line: 44 }), at(4, 44, 'gpiochip4:44'))
  assert.deepEqual(resolveIn(pc, { chip: '/dev/gpiochip6', line: 3 }), at(6, 3, 'gpiochip6:3'))
  assert.deepEqual(resolveIn(pc, { chip: 'gpiochip5', line: 1 }), at(5, 1, 'gpiochip5:1'))
  assert.throws(() => resolveIn(pi5, { header: 6 }), code('CONFIG_INVALID', /pin 6 of the header is GND/))
  assert.throws(() => resolveIn(pi5, 'GPIO40'), code('CONFIG_INVALID', /not on the header/))
  assert.throws(() => resolveIn(pi5, 'PUPM'), code('NOT_FOUND', /PUPM/))
  assert.throws(() => resolveIn(pc, { header: 11 }), code('CONFIG_INVALID', /no known header/))
  assert.throws(() => resolveIn(pc, 'BOTH'), code('CONFIG_INVALID', /several lines/))
  assert.throws(() => resolveIn(pc, { chip: 'usb', line: 0 }), code('CONFIG_INVALID', /several GPIO chips/))
  assert.throws(() => resolveIn(pc, { chip: 'gpiochip5', line: 8 }), code('CONFIG_INVALID', /has 8 lines/))
  assert.throws(() => resolveIn({ ...pi5, chips: () => [chips[0]!] }, 'GPIO4'), code('NOT_FOUND', /pinctrl-rp1/))
  for (const wrong of [{}, { pin: 'GPIO1', header: 2 }, { chip: 'x' }, { line: 3 }])
    assert.throws(() => resolveIn(pi5, wrong), code('CONFIG_INVALID', /one of pin/))
})

test('a pin option accepts each spelling, but only one at a time', () => {
  const takes = (value: unknown): boolean => v.safeParse(pinSpec, value).success
  for (const right of ['GPIO17', { pin: 'GPIO17' }, { header: 40 }, { chip: 'pinctrl-rp1', line: 0 }])
    assert.ok(takes(right), JSON.stringify(right))
  for (const wrong of [
    '',
    17,
    {},
    { header: 41 },
    { header: 0 },
    { pin: 'GPIO1', header: 1 },
    { chip: 'x' },
    { pni: 'GPIO1' },
  ])
    assert.ok(!takes(wrong), JSON.stringify(wrong))
})

test('pins and buses are found in the configuration, whatever their options are called', () => {
  const board = boardNamed('rpi-4')
  const { pins, buses } = usesOf(board, [
    { what: 'source shed', options: { pins: [{ header: 11, name: 'door' }, { pin: 'GPIO27' }], bus: 1 } },
    { what: 'uplink lora', options: { spi: '/dev/spidev0.1', dio0: 'GPIO25', reset: { header: 15 } } },
    { what: 'receiver bus', options: { port: '/dev/serial0', chip: 'pinctrl-bcm2711', line: 5 } },
  ])
  assert.deepEqual(pins.get('GPIO17'), ['source shed: door'])
  assert.deepEqual(pins.get('GPIO27'), ['source shed: pins'])
  assert.deepEqual(pins.get('GPIO25'), ['uplink lora: dio0'])
  assert.deepEqual(pins.get('GPIO22'), ['uplink lora: reset'])
  assert.deepEqual(pins.get('GPIO5'), ['receiver bus'])
  assert.deepEqual(pins.get('GPIO2'), ['i2c1 SDA'])
  assert.deepEqual(
    [...buses],
    [
      ['i2c1', ['source shed']],
      ['spi0', ['uplink lora']],
      ['uart1', ['receiver bus']],
    ],
  )
})

test('lines on no header are reported in the words of the configuration, on a machine without a header too', () => {
  const entries = [
    {
      what: 'source shed',
      options: { pins: [{ chip: 'gpiochip2', line: 3, name: 'door' }, { pin: 'PUMP' }, { header: 6 }] },
    },
    { what: 'source b', options: { chip: 'gpiochip2', line: 3 } },
    { what: 'uplink radio', options: { chip: 'sx1278', reset_pin: { header: 11 }, dio0_pin: 'GPIO25' } },
  ]
  const of = (name: string) => {
    const board = boardNamed(name)
    const report = boardReport({
      board,
      tree: { model: '', compatible: [] },
      configured: true,
      entries,
      root: '/nowhere',
    })
    const used = report.pins.filter(({ used_by }) => used_by.length > 0).map(pin => pin.header)
    return { used, clashes: report.clashes, off: report.off_header.map(({ name, used_by }) => [name, ...used_by]) }
  }
  const off = [
    ['gpiochip2 line 3', 'source shed: door', 'source b'],
    ['PUMP', 'source shed: pins'],
    ['pin 6 of the header', 'source shed: pins'],
  ]
  const clashes = ['gpiochip2 line 3: source shed: door and source b']
  assert.deepEqual(of('rpi-4'), { used: [11, 22], clashes, off })
  const more = [
    ['pin 11 of the header', 'uplink radio: reset_pin'],
    ['GPIO25', 'uplink radio: dio0_pin'],
  ]
  assert.deepEqual(of('generic'), { used: [], clashes, off: [...off, ...more] })
})

test('a link also uses the pins of its default options and of physical_config', async () => {
  const dir = tempDir()
  try {
    const path = join(dir, 'Config.json')
    const gateway = {
      board: 'rpi-4',
      sources: [
        { name: 'room', type: 'sht3x' },
        { name: 'cellar', type: 'w1' },
        { name: 'gps', type: 'nmea', port: 'ttyAMA3' },
        { name: 'wrong', type: 'gpio', pins: [{ header: 12 }], nothing: 1 },
      ],
      uplinks: [{ name: 'radio', medium: 'LoRa' }],
      receivers: [
        { name: 'heard', medium: 'LoRa' },
        { name: 'serial', medium: 'UART' },
        { name: 'bus', medium: 'CAN', peers: [{ tx_id: 1, rx_id: 2 }] },
      ],
    }
    const physical_config = { uart: { port: '/dev/ttyAMA0' }, lora: { dio0_pin: 'GPIO25', reset_pin: { header: 15 } } }
    writeFileSync(path, JSON.stringify({ gateway, RESOURCES: { physical_config } }))
    const said = execFileSync(process.execPath, [join(root, 'dist/os-node.js'), 'board', '--json', '--config', path])
    const report = JSON.parse(said.toString()) as BoardReport
    const used = Object.fromEntries(
      report.buses.flatMap(bus => (bus.used_by.length > 0 ? [[bus.name, bus.used_by]] : [])),
    )
    assert.deepEqual(used, {
      i2c1: ['source room'],
      spi0: ['uplink radio', 'receiver heard'],
      uart0: ['receiver serial'],
      uart3: ['source gps'],
      can0: ['receiver bus'],
      w1: ['source cellar'],
    })
    const pin = (name: string) => report.pins.find(one => one.name === name)?.used_by
    // one radio that two links share
    assert.deepEqual(pin('GPIO25'), ['LoRa at /dev/spidev0.0: dio0_pin'])
    assert.deepEqual(pin('GPIO22'), ['LoRa at /dev/spidev0.0: reset_pin'])
    assert.deepEqual(pin('GPIO18'), ['source wrong: pins'])
    assert.deepEqual(report.clashes, ['GPIO4: w1 DATA and uart3 TXD'])
  } finally {
    removeDir(dir)
  }
})

test('a serial port is recognized by its file, by a link to it, and by the name of each board', () => {
  const serial0 = [{ what: 'source a', options: { port: '/dev/serial0' } }]
  const names = (board: string, ports?: Parameters<typeof usesOf>[2]): string[] => [
    ...usesOf(boardNamed(board), serial0, ports).buses.keys(),
  ]
  assert.deepEqual(names('rpi-3'), ['uart1'])
  // there it may be the debug connector, which is on no header pin
  assert.deepEqual(names('rpi-5'), [])
  const full = { real: (path: string) => (path === '/dev/serial0' ? '/dev/ttyAMA0' : path) }
  assert.deepEqual(names('rpi-4', { ...full, device: ({ device }) => device }), ['uart0'])
  // as an old kernel numbers the ports
  const old = {
    real: () => '/dev/ttyAMA1',
    device: ({ name, device }: BoardBus) => (name === 'uart3' ? '/dev/ttyAMA1' : device),
  }
  assert.deepEqual(names('rpi-4', old), ['uart3'])
})
