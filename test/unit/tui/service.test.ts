// The terminal UI service: its nine methods, and the live views on a terminal that the test plays.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { DisplayProvider, DisplayRegistry, RegistryReader, type SectionReader } from '../../../src/display'
import { Node, registerDisplayProvider, TerminalUi, unregisterDisplayProvider } from '../../../src/index'
import { OsError } from '../../../src/lib/errors'
import { type TerminalPorts, tuiPlugin, tuiSettings } from '../../../src/tui'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { Vt } from '../../lib/vt'

class Counter extends DisplayProvider {
  n = 0
  extractData(): object {
    return { count: ++this.n }
  }
}

class FakeTerminal extends EventEmitter {
  readonly screen = new Vt(80, 24)
  readonly events = new EventEmitter()
  raw: boolean[] = []
  suspended = 0
  readonly input = Object.assign(new EventEmitter(), {
    isTTY: true,
    setRawMode: (raw: boolean) => this.raw.push(raw),
    resume: () => undefined,
    pause: () => undefined,
  })
  readonly output = Object.assign(new EventEmitter(), {
    isTTY: true,
    columns: 80,
    rows: 24,
    write: (text: string) => {
      this.screen.write(text)
      return true
    },
  })
  readonly logged: string[] = []
  readonly errors = {
    isTTY: true,
    write: (text: string) => {
      this.logged.push(text)
      return true
    },
  }
  ports(): TerminalPorts {
    const { input, output, errors, events } = this
    return { input, output, errors, events, env: {}, suspend: () => void this.suspended++ }
  }
  type(keys: string): void {
    this.input.emit('data', Buffer.from(keys))
  }
}

function world(section = new Counter('p', 'count')) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const registry = new DisplayRegistry(timers)
  registry.register(section)
  registry.register(new Counter('q', 'other'))
  const terminal = new FakeTerminal()
  const reader: SectionReader = new RegistryReader(registry)
  const options = { reader, clock, timers, terminal: () => terminal.ports() }
  return { clock, timers, registry, terminal, section, options, tui: new TerminalUi(null, options) }
}

test('sections are returned as data, snapshot and text, from a library node', async () => {
  const node = new Node(null)
  const extra = new Counter('plug', 'extra')
  registerDisplayProvider(extra)
  try {
    const tui = new TerminalUi(node, { clock: new ManualClock(1_710_000_000_000) })
    assert.deepEqual(
      (await tui.getAvailableSections()).map(({ name }) => name),
      ['identity', 'config', 'transport', 'pipeline', 'plugins', 'db', 'plug:extra'],
    )
    assert.equal(((await tui.renderSection('identity')) as { assigned_id: number }).assigned_id, node.assignedId)
    assert.deepEqual(await tui.renderSection('plug:extra'), { count: 1 })
    assert.deepEqual(await tui.renderSection('nope'), { error: 'section not found', code: 'NOT_FOUND' })
    assert.deepEqual(Object.keys(await tui.renderSections()), [
      'identity',
      'config',
      'transport',
      'pipeline',
      'plugins',
      'db',
      'plug:extra',
    ])
    assert.deepEqual(Object.keys(await tui.renderSections(['db', 'plug:extra'])), ['db', 'plug:extra'])
    const snapshot = await tui.buildSnapshot()
    assert.equal(snapshot.timestamp, 1_710_000_000)
    assert.equal(tui.lastSnapshot, snapshot)
    const text = await tui.renderText(['db'])
    assert.deepEqual(JSON.parse(text), { db: snapshot.db, timestamp: 1_710_000_000 })
    assert.match(text, /^{\n {2}"db"/)
    assert.equal(await tui.runOnce(['db']), text)
    assert.deepEqual(Object.keys(tui.getCliCommands()), ['render', 'interactive', 'bios'])
    const io = { signal: new AbortController().signal, print: () => undefined }
    const outcome = await tui.getCliCommands().render.run({ section: 'db,identity' }, io)
    assert.deepEqual(Object.keys(outcome.value ?? {}), ['db', 'identity', 'timestamp'])
  } finally {
    unregisterDisplayProvider('plug', 'extra')
    await node.close()
  }
})

test('without a terminal, with a wrong interval or an unknown section, nothing is started', async () => {
  const { tui, terminal } = world()
  const code = (wanted: string) => (error: unknown) => error instanceof OsError && error.code === wanted
  await assert.rejects(new TerminalUi(null, { terminal: null }).runInteractive(), code('USAGE'))
  for (const name of ['p:none', 'other', 'p'])
    await assert.rejects(tui.runInteractive(2, [name]), code('NOT_FOUND'), name)
  await assert.rejects(tui.runInteractive(0), code('USAGE'))
  await assert.rejects(tui.runInteractive(Number.NaN), code('BAD_ARGUMENT'))
  await assert.rejects(tui.runBios(2, 'nope'), code('NOT_FOUND'))
  terminal.input.isTTY = false
  await assert.rejects(tui.runInteractive(), code('USAGE'))
  assert.deepEqual(terminal.raw, [])
  assert.equal(terminal.screen.bytes, 0)
  assert.equal(terminal.events.eventNames().length, 0)
})

test('live: data changes on the screen with every interval, and not more often', async () => {
  const { tui, timers, terminal, section } = world()
  section.refresh_interval_s = 2
  const ended = tui.runInteractive(2)
  await timers.advance(0)
  assert.match(terminal.screen.text(), /count {2}1/)
  await timers.advance(2000)
  assert.match(terminal.screen.text(), /count {2}2/)
  await timers.advance(1900)
  assert.equal(section.n, 2)
  terminal.type('r')
  await timers.advance(0)
  assert.match(terminal.screen.text(), /count {2}3/)
  terminal.type('q')
  assert.equal(await ended, 0)
  assert.equal(timers.pending, 0)
})

test('a section with a slower interval is queried at its own', async () => {
  const { tui, timers, terminal, section } = world()
  section.refresh_interval_s = 10
  const ended = tui.runInteractive(1)
  await timers.advance(9000)
  assert.equal(section.n, 1)
  await timers.advance(1500)
  assert.equal(section.n, 2)
  terminal.type('q')
  await ended
})

test('a reader that fails leaves the last data with the reason, and is queried again', async () => {
  const { options, timers, terminal } = world()
  let broken = false
  const reader: SectionReader = {
    available: () => options.reader.available(),
    read: (names, format) =>
      broken ? Promise.reject(new OsError('NO_GATEWAY', 'it went away')) : options.reader.read(names, format),
  }
  const ended = new TerminalUi(null, { ...options, reader }).runInteractive(2)
  await timers.advance(0)
  broken = true
  await timers.advance(2000)
  assert.match(terminal.screen.text(), /count {2}1[\s\S]*no answer: it went away; trying again/)
  broken = false
  await timers.advance(2000)
  assert.match(terminal.screen.text(), /count {2}2/)
  assert.doesNotMatch(terminal.screen.text(), /went away/)
  terminal.type('q')
  await ended
})

test('a user without permission sees the reason on the screen', async () => {
  const { options, timers, terminal } = world()
  const refuse = (): Promise<never> => Promise.reject(new OsError('FORBIDDEN', 'no right to talk to the gateway'))
  const ended = new TerminalUi(null, { ...options, reader: { available: refuse, read: refuse } }).runInteractive(2)
  await timers.advance(0)
  assert.match(terminal.screen.lines()[3]!, /no answer: no right to talk to the gateway; trying again/)
  terminal.type('q')
  await ended
})

test('an added or removed plugin is listed within ten seconds, or immediately with r', async () => {
  const { tui, timers, terminal, registry } = world()
  const ended = tui.runInteractive(2)
  await timers.advance(0)
  registry.register(new Counter('z', 'late'))
  terminal.type('r')
  await timers.advance(0)
  assert.match(terminal.screen.text(), /3 z:late/)
  registry.unregister('z', 'late')
  await timers.advance(12_000)
  assert.doesNotMatch(terminal.screen.text(), /z:late/)
  terminal.type('q')
  await ended
})

test('only the requested sections are shown, and the first one is the configured one', async () => {
  const { options, timers, terminal } = world()
  const only = new TerminalUi(null, options).runInteractive(2, ['q:other'])
  await timers.advance(0)
  assert.doesNotMatch(terminal.screen.text(), /p:count/)
  assert.match(terminal.screen.text(), /1 q:other/)
  terminal.type('q')
  await only
  const standard = new TerminalUi(null, { ...options, standard: { section: 'q:other', interval: 5 } }).runInteractive()
  await timers.advance(0)
  assert.match(terminal.screen.text(), /every 5 s[\s\S]*other \(q:other\)/)
  terminal.type('q')
  await standard
})

test('signals, the end of input and an aborted signal end it and leave nothing behind', async () => {
  const stop = new AbortController()
  const ways: [string, (terminal: FakeTerminal) => void, number][] = [
    ['SIGTERM', terminal => terminal.events.emit('SIGTERM'), 143],
    ['SIGHUP', terminal => terminal.events.emit('SIGHUP'), 129],
    ['end of input', terminal => terminal.input.emit('end'), 0],
    ['a terminal that is gone', terminal => terminal.output.emit('error', new Error('EIO')), 0],
    ['Ctrl-C', terminal => terminal.type('\x03'), 0],
    ['abort', () => stop.abort(), 0],
  ]
  for (const [how, act, code] of ways) {
    const { options, timers, terminal } = world()
    const ended = new TerminalUi(null, { ...options, signal: stop.signal }).runBios()
    await timers.advance(0)
    assert.equal(terminal.screen.other, true, how)
    act(terminal)
    assert.equal(await ended, code, how)
    assert.deepEqual([terminal.screen.other, terminal.screen.cursor], [false, true], how)
    assert.equal(terminal.raw.at(-1), false, how)
    assert.deepEqual(
      [terminal.events, terminal.input, terminal.output].flatMap(from => from.eventNames()),
      [],
      how,
    )
    assert.equal(timers.pending, 0, how)
  }
})

test('as a plugin it uses its settings, and inside a gateway it has no terminal', async () => {
  const host = {
    node: null,
    clock: new ManualClock(),
    settings: () => ({ default_section: 'db', default_interval: 7 }),
  }
  const inside = (await tuiPlugin.create({ ...host, gateway: {} } as never)) as TerminalUi
  const io = { signal: new AbortController().signal, print: () => undefined }
  const { interactive, bios } = inside.getCliCommands()
  for (const command of [interactive, bios])
    await assert.rejects(
      async () => command.run({}, io),
      (error: unknown) => (error as OsError).code === 'USAGE',
    )
  assert.deepEqual(tuiSettings(host.settings()), { section: 'db', interval: 7 })
  assert.deepEqual(tuiSettings(undefined), { section: null, interval: 2 })
})

test('log lines wait until the terminal is released', async () => {
  const { tui, timers, terminal } = world()
  const ended = tui.runInteractive()
  await timers.advance(0)
  terminal.errors.write('a warning\n')
  assert.deepEqual(terminal.logged, [])
  terminal.type('q')
  await ended
  assert.deepEqual(terminal.logged, ['a warning\n'])
})

test('a new size redraws the complete screen', async () => {
  const { tui, timers, terminal } = world()
  const ended = tui.runBios()
  await timers.advance(0)
  Object.assign(terminal.output, { columns: 50, rows: 12 })
  terminal.screen.resize(50, 12)
  terminal.output.emit('resize')
  assert.match(terminal.screen.lines()[10]!, /^└─+┘$/)
  terminal.type('q')
  await ended
})
