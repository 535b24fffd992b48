// The terminal UI on real pseudo-terminals: its screen, keys, sizes, a gateway that starts and stops, and a terminal restored to
// its previous state, however the program ends.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, Machine, removeDir, script, tempDir, until } from '../lib/gateway'
import { Tty } from '../lib/tty'

const dir = tempDir()
let machine: Machine
const open: Tty[] = []

before(() => {
  machine = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'pi-roof',
    gateway: { uplinks: [], sources: [{ name: 'cpu', type: 'cpu', interval_ms: 200 }] },
    // only the built-in sections
    RESOURCES: { service_plugins: { env_guard: { auto_start: false } } },
  })
})
after(async () => {
  for (const tty of open) tty.close()
  await machine.stop()
  removeDir(dir)
})

function tui(args: readonly string[] = [], options: ConstructorParameters<typeof Tty>[1] = {}): Tty {
  const command = [process.execPath, script, 'tui', ...args, '--config', machine.config, '--data-dir', machine.dataDir]
  const tty = new Tty(command, { cwd: machine.dir, ...options })
  open.push(tty)
  return tty
}

/** The terminal is restored for the shell: its screen, its cursor, its line discipline. */
async function restored(tty: Tty): Promise<void> {
  const { other, cursor, wraps } = tty.screen
  assert.deepEqual({ other, cursor, wraps }, { other: false, cursor: true, wraps: true })
  assert.deepEqual(await tty.modes(), { lines: true, echo: true, signals: true })
}

test('the UI shows the sections of the files in 80 by 24, with a number each, and reacts to every key', async () => {
  const tty = tui()
  await tty.shows('assigned_id')
  const first = tty.screen.lines()
  assert.equal(first.length, 24)
  assert.ok(first.every(line => line.length <= 80))
  assert.match(first[0]!, /os-node .*pi-roof .*via local/)
  assert.match(first[1]!, /1 identity {2}2 config {2}3 transport {2}4 pipeline {2}5 plugins {2}6 db/)
  assert.match(first[23]!, /m providers {2}s search .* a all {2}r refresh {2}j json {2}q quit/)
  assert.equal(tty.screen.other, true)
  assert.equal(tty.screen.cursor, false)
  assert.deepEqual(await tty.modes(), { lines: false, echo: false, signals: false })

  tty.type('3')
  await tty.shows(/Transport \(node_core:transport\)[\s\S]*UDP +L4 +on/)
  tty.type('j')
  await tty.shows('"transport_status": {')
  tty.type('j')
  await tty.shows(/UDP +L4 +on/)
  tty.type('m')
  await tty.shows(/6 providers[\s\S]*node_core:db +Database +core +75/)
  tty.type('s')
  await tty.shows('search:')
  tty.type('pip')
  await tty.shows(/1 of 6 sections[\s\S]*4 pipeline/)
  tty.type('\r')
  await tty.shows(/Pipeline \(node_core:pipeline\)[\s\S]*unit_dialect/)
  tty.type('a')
  await tty.shows(/all 6 sections[\s\S]*Identity \(identity\)/)
  tty.type('\x1b[6~')
  await tty.shows(/ 2\d-\d+ of \d+/)
  tty.type('9')
  await tty.shows('no section 9')
  tty.type('\x1b')
  await tty.shows('(node_core:pipeline)')
  tty.type('\x1b[D')
  await tty.shows('(node_core:transport)')
  tty.type('q')
  assert.deepEqual(await tty.end(), { code: 0, signal: 0 })
  await restored(tty)
})

test('the UI follows the size of the terminal, down to one too small for anything', async () => {
  const tty = tui(['--section', 'config'])
  await tty.shows('engine_settings')
  for (const [columns, rows] of [
    [132, 50],
    [40, 10],
    [80, 24],
  ] as const) {
    tty.resize(columns, rows)
    await until(`${columns}x${rows}`, () => /q quit$/.test(tty.screen.lines()[rows - 1] ?? ''))
    await tty.shows(new RegExp(` 1-${rows - 4} of \\d+ ─`))
    assert.equal(tty.screen.lines().length, rows)
  }
  tty.resize(10, 3)
  await tty.shows('too small')
  tty.type('q')
  assert.equal((await tty.end()).code, 0)
})

test('bios is framed, starts with the requested section and is navigated by arrows', async () => {
  const tty = tui(['bios', '--section', 'db'], { columns: 120, rows: 30 })
  await tty.shows(/dialect +sqlite/)
  const lines = tty.screen.lines()
  assert.match(lines[1]!, /Identity {2}Configuration {2}Transport {2}Pipeline {2}Plugins {2}Database/)
  assert.match(lines[2]!, /^┌─+┬─+┐$/)
  assert.match(lines[28]!, /^└─+┴─+┘$/)
  for (const line of lines.slice(3, 28)) assert.equal([...line].length, 120)
  assert.match(tty.screen.text(), /priority +75/)
  tty.type('\x1b[C')
  await tty.shows(/priority +100/)
  tty.resize(80, 24)
  await tty.shows(/device_id +pi-roof/)
  await until('80x24', () => /^└─+┘$/.test(tty.screen.lines()[22] ?? ''))
  tty.type('\x03')
  assert.deepEqual(await tty.end(), { code: 0, signal: 0 })
  await restored(tty)
})

test('the UI starts with the section and the interval of the configuration, unless the command line sets others', async () => {
  const other = new Machine(join(dir, 'other'), 'run', {
    RESOURCES: { service_plugins: { tui: { default_section: 'db', default_interval: 7 } } },
  })
  const run = (...args: string[]): Tty => {
    const tty = new Tty([process.execPath, script, 'tui', ...args, '--config', other.config], { cwd: other.dir })
    open.push(tty)
    return tty
  }
  const first = run()
  await first.shows(/every 7 s[\s\S]*Database \(node_core:db\)[\s\S]*dialect/)
  first.type('q')
  const second = run('bios', '--section', 'opensynaptic_core:identity', '--interval', '3')
  await second.shows(/every 3 s[\s\S]*config_path/)
  second.type('q')
  await Promise.all([first.end(), second.end()])
})

test('the UI writes only changes: a second display of the same data is a few bytes and clears nothing', async () => {
  const tty = tui(['--interval', '0.2', '--section', 'config'])
  await tty.shows('engine_settings')
  const { cleared, bytes, frames } = tty.screen
  await until('some more polls', () => tty.screen.frames >= frames + 3 && !tty.screen.drawing)
  assert.equal(tty.screen.cleared, cleared)
  // only the time in the first line
  assert.ok((tty.screen.bytes - bytes) / (tty.screen.frames - frames) < 150, `${tty.screen.bytes - bytes} bytes`)
  tty.type('q')
  await tty.end()
})

test('a gateway that starts is shown live, after a stop the last data and the reason stay', async () => {
  const tty = tui(['--interval', '0.3', '--section', 'pipeline'])
  await tty.shows(/via local[\s\S]*unit_dialect/)
  await machine.start(['--port', String(await freePort())])
  await tty.shows(/via gateway[\s\S]*cpu_busy +[\d.]+ %/)
  const readings = (): number => Number(/intake: readings (\d+)/.exec(tty.screen.text())?.[1] ?? 0)
  const seen = await until('readings', readings)
  await until('more readings', () => readings() > seen)
  await machine.stop('SIGKILL')
  // no process has the lock any more: next are the data of the files
  await tty.shows('via local')
  tty.type('q')
  assert.equal((await tty.end()).code, 0)
  await restored(tty)
})

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const)
  test(`the UI restores the terminal on ${signal}`, async () => {
    const tty = tui()
    await tty.shows('assigned_id')
    tty.kill(signal)
    const { signal: by } = await tty.end()
    assert.equal(by, 0)
    await restored(tty)
  })

test('the UI ends when the terminal hangs up', async () => {
  const tty = tui()
  await tty.shows('assigned_id')
  tty.hangUp()
  await tty.end()
})

test('the UI restores the terminal when the program crashes', async () => {
  const tty = tui([], { env: { NODE_OPTIONS: `--require ${JSON.stringify(breaking())}` } })
  await tty.shows('assigned_id')
  tty.kill('SIGUSR2')
  const { code } = await tty.end()
  assert.notEqual(code, 0)
  await restored(tty)
})

/** A module that throws at a random place when the test says so. */
function breaking(): string {
  const path = join(machine.dir, 'breaking.cjs')
  writeFileSync(path, "process.on('SIGUSR2', () => setImmediate(() => { throw new Error('out of nowhere') }))\n")
  return path
}

test('Ctrl-Z returns the terminal to the shell, and a continued UI redraws itself', async () => {
  // a shell with job control in between, as a user has
  const command = ['bash', '--norc', '--noprofile', '-im']
  const tty = new Tty(command, { cwd: machine.dir, env: { PS1: 'prompt ', HISTFILE: '' } })
  open.push(tty)
  // the shell's own line editor uses other sequences
  await until('a prompt', () => tty.output.includes('prompt '))
  tty.type(`${process.execPath} ${script} tui --config ${machine.config} --data-dir ${machine.dataDir}\r`)
  await until('the view', () => tty.output.includes('assigned_id'))
  tty.type('\x1a')
  await until('stopped', () => /Stopped/.test(tty.output))
  const before = tty.output.length
  assert.ok(tty.output.lastIndexOf('\x1b[?1049l') > tty.output.lastIndexOf('\x1b[?1049h'))
  tty.type('fg\r')
  await until('the view is back', () => tty.output.slice(before).includes('assigned_id'))
  tty.type('q')
  await until('the other screen left', () => tty.output.slice(before).includes('\x1b[?1049l'))
  await until(
    'a prompt again',
    () => /prompt [\s\S]*prompt /.test(tty.output.slice(before)) || tty.output.endsWith('prompt '),
  )
  tty.type('exit\r')
  await tty.end()
})

test('a terminal without colours or UTF-8 shows the same screen in plain characters', async () => {
  const plain = tui(['bios'], { env: { NO_COLOR: '1', LANG: 'C', LC_ALL: 'C' } })
  await plain.shows('device_id')
  assert.match(plain.screen.lines()[2]!, /^\+-+\+$/)
  assert.doesNotMatch(plain.output, /[^\x00-\x7e]/)
  assert.doesNotMatch(plain.output, /\x1b\[[\d;]*3\dm/)
  plain.type('q')
  await plain.end()
})

test('without a terminal the UI says so and how to print once; an unknown section is reported before the screen is used', async () => {
  const none = machine.run('tui')
  assert.equal(none.code, 2)
  assert.match(none.stderr, /needs a terminal[\s\S]*os-node tui render/)
  const tty = tui(['--section', 'nope'])
  assert.deepEqual(await tty.end(), { code: 1, signal: 0 })
  assert.match(tty.output, /no section "nope"[\s\S]*there are: identity, config/)
  assert.doesNotMatch(tty.output, /\?1049/)
})

test('render prints the sections once, without a gateway and through one', async () => {
  const local = machine.json('tui', 'render', '--section', 'identity,node_core:db')
  assert.equal(local.via, 'local')
  assert.equal(local.identity.device_id, 'pi-roof')
  assert.deepEqual(Object.keys(local).sort(), ['identity', 'node_core:db', 'timestamp', 'via'])
  const missing = machine.run('tui', 'render', 'nope', '--json')
  assert.equal(missing.code, 1)
  assert.deepEqual(JSON.parse(missing.stdout).nope, { error: 'section not found', code: 'NOT_FOUND' })
  assert.equal(machine.run('tui', 'render', '--format', 'pdf').code, 2)
  await machine.start(['--port', String(await freePort())])
  try {
    const through = machine.json('tui', 'render')
    assert.equal(through.via, 'gateway')
    assert.equal(through.identity.role, 'run')
    const names = machine.json('tui', 'sections').sections.map((section: { name: string }) => section.name)
    assert.deepEqual(names, ['identity', 'config', 'transport', 'pipeline', 'plugins', 'db'])
    assert.deepEqual(Object.keys(through).sort(), [...names, 'timestamp', 'via'].sort())
    assert.match(machine.run('tui', 'render', 'transport').stdout, /UDP +L4 +on/)
    assert.match(machine.run('tui', 'render', 'db', '--format', 'tree').stdout, /└─/)
  } finally {
    await machine.stop()
  }
})
