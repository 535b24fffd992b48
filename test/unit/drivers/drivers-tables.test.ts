// The tables of the drivers, and the output of their smaller parts for random input, compared with drivers-tables.txt: objects of
// advertisements, boards and their reports, names of sensors, the airtime budget, files of /proc.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { BthomeDecoder } from '../../../drivers/bluetooth/bthome'
import { bthomeKeys, channelUnit, objectType } from '../../../drivers/bluetooth/bthome-objects'
import { decodeRuuvi, RUUVI_CHANNELS, RUUVI_USUAL } from '../../../drivers/bluetooth/ruuvi'
import { BOARDS, detectBoard, pinName, pinText, resolveIn } from '../../../drivers/board'
import { boardReport } from '../../../drivers/board/report'
import { usesOf } from '../../../drivers/board/uses'
import { hwmonChannel, iioChannel } from '../../../drivers/host/channels'
import { createHostSource, defaultSources } from '../../../drivers/host/index'
import { groupsOf, patternReader } from '../../../drivers/lines/pattern'
import { DutyBook } from '../../../drivers/lora/airtime-file'
import { DutyCycle } from '../../../drivers/lora/duty'
import { loraOptions } from '../../../drivers/lora/lora-options'
import { modemOf } from '../../../drivers/lora/modem'
import { mediaTable, sourceTable } from '../../../src/index'
import { silentLogger } from '../../../src/lib/logger'
import { checkOptions } from '../../../src/links/driver-options'
import { ManualClock } from '../../lib/manual'
import { dice, digest, outcome, Trace } from '../../lib/trace'
import { MemFiles, systemError } from '../log/memfiles'
import { raws } from './drivers-options'

const trace = new Trace('unit/drivers/drivers-tables.txt')
const root = mkdtempSync(join(tmpdir(), 'drivers-tables-'))
after(() => {
  rmSync(root, { recursive: true })
  trace.compare()
})
const { below, chance, pick, text } = dice(43)
const bytes = (size: number): Buffer =>
  Buffer.from(Array.from({ length: size }, () => pick([0, 1, 0x7f, 0x80, 255, below(256)])))

test('objects and formats of advertisements match drivers-tables.txt', () => {
  trace.say('keys', [bthomeKeys(), [...bthomeKeys(), 'x', 'door_2', 'door_0', 'door_1x'].map(channelUnit)])
  trace.say('ruuvi', [RUUVI_CHANNELS, RUUVI_USUAL])
  for (let id = 0; id < 256; id += 8) {
    const decoder = new BthomeDecoder()
    const seen: unknown[] = []
    for (let one = id; one < id + 8; one++) {
      seen.push(objectType(one) ?? null)
      for (const fill of [1, 0x80, 0xfe]) {
        const body = Buffer.of(0x16, 0xd2, 0xfc, 0x40, one, fill, fill + 1, fill, 2, 3, 4, 5, 6)
        for (const size of [6, 7, 8, 9, 13]) {
          const data = Buffer.concat([Buffer.of(size - 1), body.subarray(0, size - 1)])
          seen.push(outcome(() => decoder.decode(data, 'a', -60, one * 1e5, (...got) => seen.push(got))))
        }
      }
    }
    trace.say(`objects ${id}`, digest(0, Buffer.from(JSON.stringify(seen))))
  }
  trace.course('ruuvi', 800, 100, () => {
    const seen: unknown[] = []
    const payload = Buffer.concat([
      Buffer.of(pick([3, 5, 6, 0xe1, 8])),
      bytes(pick([39, 39, 39, 23, 19, 13, below(40)])),
    ])
    return [decodeRuuvi(payload, (...got) => seen.push(got)), seen]
  })
})

test('boards, their pins and the users of pins match drivers-tables.txt', () => {
  for (const board of BOARDS) {
    trace.say(board.name, digest(0, Buffer.from(JSON.stringify(board))))
    trace.say('detected', [detectBoard({ model: `${board.model} Rev`, compatible: [] } as never).name])
    trace.say(
      'compatible',
      Object.keys(board.compatible).map(name => detectBoard({ model: '', compatible: ['x', name] } as never).name),
    )
  }
  let k = 0
  trace.course('reports', 60, 5, () => {
    const board = pick(BOARDS)
    const at = join(root, `board${k++}`)
    const put = (path: string, content = ''): void => {
      mkdirSync(dirname(join(at, path)), { recursive: true })
      writeFileSync(join(at, path), content)
    }
    put('/x')
    const lines = board.buses.flatMap(({ enable }) => enable.flat())
    if (chance(0.7))
      put(
        pick(board.boot_config.length > 0 ? board.boot_config : ['/y']),
        `${pick(['', '[all]\n', '[none]\n'])}${lines.filter(() => chance(0.5)).join('\n')}`,
      )
    for (const { device, kind, modules = [], address } of board.buses) {
      if (chance(0.5))
        put(
          kind === 'can' ? `/sys/class/net/${device}/flags` : kind === 'w1' ? `${device}/y` : device,
          pick(['0x1003', '0x1002']),
        )
      for (const module of modules) if (chance(0.5)) put(`/sys/module/${module.replaceAll('-', '_')}/z`)
      if (address && chance(0.5)) put(`/sys/class/tty/ttyAMA${below(6)}/${address}/dev`)
    }
    for (const names of Object.values(board.leds)) if (chance(0.5)) put(`/sys/class/leds/${pick(names)}/brightness`)
    const spec = (): unknown =>
      pick([
        `GPIO${below(30)}`,
        { header: below(42) },
        { chip: pick([...board.gpio.labels, 'other']), line: below(30) },
        { pin: 'LED' },
        null,
        { pin: 'a', header: 3 },
        7,
        [undefined],
      ])
    const devices = [
      ...board.buses.map(({ device }) => device),
      '/dev/serial0',
      'ttyS0',
      '/dev/spidev0.1',
      '/dev/ttyUSB0',
    ]
    const entries = Array.from({ length: below(6) }, (_, n) => ({
      what: `source s${n}`,
      ...(chance(0.3) && { holder: 'bus' }),
      options: pick([
        { port: pick(devices), reset_pin: spec(), inputs: [spec(), { name: 'door', ...(spec() as object) }] },
        { type: pick(['w1', 'x']), bus: below(3), interface: pick(['can0', 'can1']), device: pick(devices) },
        spec(),
      ]),
    }))
    const uses = usesOf(board, entries)
    const chips = board.gpio.labels.map((label, n) => ({
      path: `/dev/gpiochip${n}`,
      label,
      lines: pick([board.gpio.lines, 3]),
      name: `gpiochip${n}`,
    }))
    const world = { board, chips: () => (chance(0.8) ? chips : []), lineNamed: () => pick([null, 4]) }
    const pins = Array.from({ length: 8 }, () => spec()).filter(
      one => typeof one === 'string' || (one && !Array.isArray(one) && typeof one === 'object'),
    )
    const tree = { model: 'm', compatible: chance(0.5) ? Object.keys(board.compatible).slice(-1) : [] }
    const report = boardReport({ board, tree: tree as never, configured: chance(0.5), entries, root: at })
    return [
      [...uses.pins],
      [...uses.buses],
      pins.map(one => [
        pinName(one as never, board),
        pinText(one as never),
        outcome(() => resolveIn(world as never, one as never)),
      ]),
      JSON.stringify(report).replaceAll(at, ''),
    ]
  })
})

test('the values computed from options match drivers-tables.txt', async () => {
  const logger = { ...silentLogger, child: () => logger } as never
  const context = { clock: new ManualClock(), logger, dataDir: root }
  for (const [name, load] of Object.entries({ ...mediaTable, ...sourceTable }).sort()) {
    const driver = (await load()) as unknown as {
      create(name: string, raw: unknown, context: unknown): Record<string, unknown>
    }
    const made = raws.map(raw =>
      outcome(() => {
        const { medium, type, maxPacket, intervalMs, sensors, counters, acknowledges } = driver.create(
          'x',
          raw,
          context,
        )
        return { medium, type, maxPacket, intervalMs, sensors, counters, acknowledges }
      }),
    )
    trace.say(name, [digest(0, Buffer.from(made.join())), made.map(text => text.slice(0, 40))])
  }
  for (const chip of ['sx1276', 'sx1277', 'sx1278', 'sx1279'])
    for (const mhz of [137, 138, 174, 175, 176, 409, 410, 411, 525, 526, 778, 779, 861, 862, 863, 959, 960, 1020]) {
      const raw = { region: 'none', chip, frequency_hz: mhz * 1e6, spreading_factor: mhz % 2 ? 7 : 10 }
      const modem = outcome(() => modemOf(checkOptions(loraOptions, raw, 'm') as never))
      trace.say(`${chip} ${mhz}`, digest(0, Buffer.from(modem)))
    }
  for (const bandwidth_khz of [250, 500])
    for (const edge of [410, 525, 862, 1020])
      for (const hz of [-1, 0, 1].map(more => edge * 1e6 + more)) {
        const raw = { region: 'none', chip: edge > 600 ? 'sx1276' : 'sx1278', frequency_hz: hz, bandwidth_khz }
        trace.say(
          `${bandwidth_khz} kHz at ${hz}`,
          outcome(() => modemOf(checkOptions(loraOptions, raw, 'm') as never)),
        )
      }
})

test('names of sensors, patterns of lines and the airtime budget match drivers-tables.txt', async () => {
  const kinds = [
    'temp',
    'in',
    'fan',
    'curr',
    'power',
    'humidity',
    'energy',
    'pwm',
    'in_temp',
    'in_voltage',
    'in_pressure',
    'in_humidityrelative',
    'in_illuminance',
    'in_accel',
    'in_x',
  ]
  const ends = [
    '_input',
    '_average',
    '_label',
    '_enable',
    '_fault',
    '',
    '_raw',
    '_x_raw',
    '_scale',
    '_offset',
    '_y_input',
  ]
  trace.course('names', 1500, 250, () => {
    const file = `${pick(kinds)}${pick(['', '0', '1', '12'])}${pick(ends)}`
    const beside = new Set([file, ...Array.from({ length: 6 }, () => file.replace(/_[a-z]+$/, pick(ends)))])
    return [file, hwmonChannel(file, beside) ?? null, iioChannel(file, beside) ?? null]
  })
  const types =
    'accel angl anglvel altvoltage capacitance concentration count current distance electricalconductivity energy gravity humidityrelative illuminance incli intensity magn massconcentration ph phase positionrelative power pressure proximity resistance rot steps temp uvindex velocity voltage'
  for (const type of types.split(' '))
    trace.say(
      type,
      [[], [`in_${type}_scale`, `in_${type}_offset`]].map(more => iioChannel(`in_${type}0_raw`, new Set(more)) ?? null),
    )
  for (const kind of 'in curr power energy fan humidity freq temp pwm'.split(' '))
    trace.say(kind, hwmonChannel(`${kind}7_input`, new Set()) ?? null)
  const patterns = ['t=(?<t>\\S+)', 'H(?<h>[0-9A-F]+)', '(?<t>x)|(?<w>on|off)']
  const readers = [true, false].map(loose =>
    patternReader(
      patterns,
      loose,
      new Map([
        ['t', { place: 0, options: {} }],
        ['h', { place: 1, options: { base: 16 } }],
        ['w', { place: 2, options: { words: { on: 1, off: 0 } } }],
      ]),
    ),
  )
  trace.say('groups', patterns.map(groupsOf))
  trace.course('lines', 600, 100, () => {
    const line =
      pick(['t=', 'T=', 'H', 'h', 'x', 'ON', 'off ', '']) +
      text('0123,.eEaF-x', 7) +
      pick(['', ' H1F', ' on', 'y'.repeat(50)])
    const seen: unknown[] = []
    return [readers.map(read => read(line, (...got) => seen.push(got))), seen]
  })
  const clock = new ManualClock()
  const files = new MemFiles()
  const limits = [
    { budgetMs: 36_000, windowMs: 3_600_000 },
    { budgetMs: 4000, windowMs: 60_000 },
  ]
  const said: unknown[] = []
  const logger = { ...silentLogger, warn: (line: string) => said.push(line) }
  let [duty, book, mono] = [new DutyCycle(limits), null as DutyBook | null, 0]
  trace.course('duty', 1500, 100, () => {
    if (book === null || chance(0.02)) {
      if (chance(0.1))
        files.files.set('/d/book', {
          data: Buffer.from(pick(['', '{"b":{"at":0,"reserved_ms":-1,"spent":[]}}', '{}'])),
          durable: Buffer.alloc(0),
        })
      if (chance(0.5)) book?.close(clock.mono())
      duty = new DutyCycle(chance(0.9) ? limits : [])
      book = new DutyBook({
        path: '/d/book',
        band: pick(['b', 'b', 'c']),
        budgetMs: 36_000,
        duty,
        files,
        clock,
        logger,
      })
      clock.wallMs += pick([0, 0, 60_000, -5000])
      book.load()
    }
    files.gate = chance(0.05)
      ? () => {
          throw systemError('ENOSPC')
        }
      : () => undefined
    const ms = pick([1, 40, 400, 1500, 4000, 4001, 36_001])
    const now = clock.mono()
    const at = duty.readyAt(ms, now, pick([1, 1, 0.85]))
    if (at <= now) {
      duty.spend(ms, now)
      book.spent(ms, now)
      clock.advance(pick([ms, ms, ms + 50]))
      duty.ended(clock.mono())
    }
    clock.advance(pick([0, 1, 1000, 5000, 60_000, Number.isFinite(at) && chance(0.5) ? Math.max(0, at - now) : 0]))
    mono++
    files.gate = () => undefined
    const page = files.exists('/d/book') ? files.read('/d/book').toString() : ''
    return [String(at), duty.usage(clock.mono()), duty.ago(clock.mono()), page, said.splice(0), mono]
  })
})

test('groups of sensors from /proc and from file systems match drivers-tables.txt', async () => {
  trace.say('default', [defaultSources(), defaultSources('/data')])
  const proc = join(root, 'proc')
  mkdirSync(join(proc, 'net'), { recursive: true })
  const clock = new ManualClock()
  const said: unknown[] = []
  const logger = { ...silentLogger, warn: (line: string) => said.push(line), debug: (line: string) => said.push(line) }
  const events = { lost: (why: string) => said.push(why), degraded: (why: string) => said.push(why) }
  let [ticks, packets] = [100, 10]
  const files: Record<string, () => string> = {
    stat: () => `cpu  ${(ticks += pick([0, 3, 9, 10, 11, 400]))} 5 30 ${800 + below(400)} 20 3 4 0 0 0\ncpu0 1 2 3 4\n`,
    loadavg: () => `0.${below(99)} 0.18 0.12 1/80 11206\n`,
    uptime: () => `${35 + below(99)}.47 234.90\n`,
    meminfo: () =>
      `MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: ${below(900)} kB\nSwapTotal: ${pick([0, 50])} kB\nSwapFree: 40 kB\n`,
    'net/dev': () => {
      const names = [
        'eth0',
        'lo',
        'wlan0',
        'docker0',
        ...Array.from({ length: below(9) }, (_, n) => `usb${n + 2}`),
      ].filter(() => chance(0.8))
      const row = (name: string): string =>
        `  ${name}: ${Array.from({ length: pick([16, 16, 16, 12, 11]) }, () => (packets += below(9))).join(' ')}\n`
      return `Inter-| Receive\n face |bytes\n${names.map(row).join('')}`
    },
  }
  const space = async (path: string) => {
    if (chance(0.15)) throw systemError('EIO')
    const totalBytes = pick([0, 1000])
    return {
      device: path === '/same' ? 1 : path.length,
      totalBytes,
      freeBytes: pick([0, totalBytes / 2]),
      availableBytes: pick([0, totalBytes / 4]),
    }
  }
  const env = { space, sleep: async (ms: number) => said.push(['sleep', ms]) && clock.advance(ms) }
  const made = [
    ...(['cpu', 'memory', 'uptime', 'network'] as const).map(type => [type, {}] as const),
    ['network', { interfaces: 'usb*' }] as const,
    ['disk', { paths: ['/same', '/a b', '/'] }] as const,
  ].map(([type, options], k) =>
    createHostSource(
      type,
      `${type}${k}`,
      { proc_root: proc, sys_root: root, ...options } as never,
      { clock, logger, dataDir: '/data' },
      env as never,
    ),
  )
  await trace.steps('host', 150, 10, async k => {
    for (const [name, of] of Object.entries(files)) {
      if (chance(0.05)) rmSync(join(proc, name), { force: true })
      else if (chance(0.7)) writeFileSync(join(proc, name), chance(0.05) ? 'odd' : of())
    }
    for (const one of made) {
      const failed = ({ code, message, hint }: { code: string; message: string; hint: string }): void =>
        void said.push([one.name, code, message.replaceAll(root, ''), hint])
      if (k % 20 === 0 || chance(0.03)) await one.open(events).catch(failed)
      await one.read().then(rows => said.push([one.name, rows]), failed)
    }
    clock.advance(pick([0, 50, 99, 100, 1000]))
    return digest(
      0,
      Buffer.from(JSON.stringify([said.splice(0), made.map(({ counters }) => counters)]).replaceAll(root, '')),
    )
  })
})
