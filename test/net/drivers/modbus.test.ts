// Modbus against slaves with third-party code (libmodbus): TCP, and RTU over pairs of pseudo-terminals.
// Needs: cc modbus socat
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { modbusRtu, modbusTcp } from '../../../drivers/modbus'
import { frameRtu } from '../../../drivers/modbus/codec'
import { systemClock } from '../../../src/lib/clock'
import type { OsError } from '../../../src/lib/errors'
import { silentLogger } from '../../../src/lib/logger'
import type { OpenableEvents, Source } from '../../../src/links/contracts'
import { Supervisor } from '../../../src/links/supervisor'
import { freePort, Machine, root, sleep, until } from '../../lib/gateway'
import { type Plug, Ptys } from '../../lib/ptys'

const dir = mkdtempSync(join(tmpdir(), 'modbus-'))
const server = join(dir, 'modbus-server')
const started: ChildProcess[] = []
const sources: Source[] = []
const context = { clock: systemClock, logger: silentLogger }

before(() => {
  execFileSync('cc', [
    '-o',
    server,
    join(root, 'test/net/drivers/modbus-server.c'),
    '-I/usr/include/modbus',
    '-lmodbus',
    '-lutil',
  ])
})
after(async () => {
  for (const source of sources) await source.close()
  for (const child of started) child.kill()
  rmSync(dir, { recursive: true, force: true })
})

async function run(program: string, ...args: string[]): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  started.push(child)
  if (program === server) await new Promise(resolve => child.stdout!.once('data', resolve))
  return child
}

function events(): { heard: string[]; events: OpenableEvents } {
  const heard: string[] = []
  return { heard, events: { lost: r => heard.push(`lost ${r}`), degraded: r => heard.push(r) } }
}

/** An opened source; closed at the end. */
async function open(source: Source, listener = events().events): Promise<Source> {
  sources.push(source)
  await source.open(listener)
  return source
}

const holding = (...addresses: number[]) => addresses.map(address => ({ id: `h${address}`, address }))
const values = async (source: Source): Promise<(number | null)[]> => (await source.read()).map(row => row[2])
const errors = async (source: Source) => (await source.readRaw!()).map(row => row.error)

const EVERYTHING = [
  ...holding(0, 1, 2, 50),
  { id: 'i7', table: 'input', address: 7, scale: 0.1, unit: 'Cel' },
  { id: 'c4', table: 'coil', address: 4 },
  { id: 'c5', table: 'coil', address: 5 },
  { id: 'd9', table: 'discrete', address: 9 },
  { id: 'abcd', address: 100, type: 'f32' },
  { id: 'cdab', address: 102, type: 'f32', word_order: 'CDAB' },
]
const F = Math.fround(123.456)
const WANTED = [0, 3, 6, 150, 100.7, 1, 0, 1, F, F]

test('TCP: 200 reads of every table succeed; exceptions are reported by name', async () => {
  const port = await freePort()
  await run(server, 'tcp', String(port))
  const options = { host: 'localhost', port, timeout_ms: 10_000, registers: EVERYTHING }
  const source = await open(modbusTcp.create('plc', options, context))
  for (let k = 0; k < 200; k++) assert.deepEqual(await values(source), WANTED)
  assert.equal(source.counters.rx, 2000)
  assert.equal(source.counters.errors, 0)
  const beyond = await open(modbusTcp.create('far', { ...options, registers: holding(199, 200) }, context))
  assert.deepEqual(await errors(beyond), [undefined, 'slave 255, holding 200: illegal data address (exception 2)'])
})

test('TCP: late answers are not mixed up, a closed connection is reopened, a dead server is a lost link', async () => {
  const port = await freePort()
  const child = await run(server, 'tcp', String(port))
  const options = { host: '127.0.0.1', port, timeout_ms: 300 }
  const { heard, events: listener } = events()
  const slow = await open(modbusTcp.create('slow', { ...options, registers: holding(150) }, context))
  const quick = await open(modbusTcp.create('quick', { ...options, registers: holding(7) }, context), listener)
  assert.deepEqual(await errors(slow), ['no answer from slave 255'])
  // the answer of 150 arrives while 7 is awaited: one request behind it times out, none gets the wrong value
  for (let k = 0; k < 20; k++) {
    const [value] = await values(quick)
    assert.ok(value === 21 || value === null)
    await sleep(50)
  }
  await until('the slave is polled again', async () => (await values(quick))[0] === 21)
  const patient = { ...options, timeout_ms: 60_000, registers: holding(151) }
  const closes = await open(modbusTcp.create('closes', patient, context))
  assert.match((await errors(closes))[0]!, /no answer from slave 255: the connection is gone/)
  await until('a new connection', async () => (await values(quick))[0] === 21)
  assert.ok(!heard.some(reason => reason.startsWith('lost')))
  child.kill()
  await new Promise(resolve => child.once('exit', resolve))
  await until('the link is lost', async () => {
    await quick.read().catch(() => undefined)
    return heard.some(reason => /^lost no connection to 127\.0\.0\.1:\d+ \(ECONNREFUSED\)/.test(reason))
  })
})

test('TCP: closed while it connects and opened again: one connection, and the answers arrive', async () => {
  const port = await freePort()
  await run(server, 'tcp', String(port)) // serves one connection until that is closed
  const source = modbusTcp.create('plc', { host: '127.0.0.1', port, registers: holding(7) }, context)
  const first = assert.rejects(source.open(events().events), { code: 'LINK_DOWN' })
  await source.close()
  await open(source)
  await first
  assert.deepEqual(await values(source), [21])
  // the same a moment later, with a connection in progress
  await source.close()
  const second = assert.rejects(source.open(events().events), { code: 'LINK_DOWN' })
  await new Promise(setImmediate)
  await source.close()
  await open(source)
  await second
  assert.deepEqual(await values(source), [21])
})

/** Two ends of a serial line. */
async function line(): Promise<{ ours: string; theirs: string }> {
  const [ours, theirs] = [join(dir, `a${started.length}`), join(dir, `b${started.length}`)]
  await run('socat', `pty,raw,echo=0,link=${ours}`, `pty,raw,echo=0,link=${theirs}`)
  await until('the terminals exist', () => existsSync(ours) && existsSync(theirs))
  return { ours, theirs }
}

test('RTU: 200 reads of every table next to a dead slave, which costs nearly nothing (R17)', async () => {
  const { ours, theirs } = await line()
  await run(server, 'rtu', theirs, '17')
  const options = { port: ours, baudrate: 19_200, timeout_ms: 10_000 }
  const source = await open(modbusRtu.create('meter', { ...options, slave: 17, registers: EVERYTHING }, context))
  const dead = await open(
    modbusRtu.create('dead', { ...options, timeout_ms: 300, slave: 18, registers: holding(1, 90) }, context),
  )
  for (let k = 0; k < 200; k++) {
    const [read, lost] = await Promise.all([values(source), values(dead)])
    assert.deepEqual(read, WANTED)
    assert.deepEqual(lost, [null, null])
  }
  assert.ok(dead.counters.detail!.timeouts! > 0)
  const beyond = await open(modbusRtu.create('far', { ...options, slave: 17, registers: holding(300) }, context))
  assert.deepEqual(await errors(beyond), ['slave 17, holding 300: illegal data address (exception 2)'])
})

test('RTU: noise on the line and late answers give no wrong value', async () => {
  const { ours, theirs } = await line()
  await run(server, 'rtu', theirs, '5')
  const options = { port: ours, baudrate: 19_200, timeout_ms: 300, slave: 5 }
  const slow = await open(modbusRtu.create('slow', { ...options, registers: holding(150) }, context))
  const quick = await open(modbusRtu.create('quick', { ...options, registers: holding(7) }, context))
  assert.deepEqual(await errors(slow), ['no answer from slave 5'])
  let noise = 0
  await until('the slave answers again', async () => {
    // another device sends in between
    writeFileSync(theirs, Buffer.from([0, 0xff, 5, 3, noise++ & 0xff]))
    const [value] = await values(quick)
    assert.ok(value === 21 || value === null)
    return value === 21
  })
})

/** A slave behind a plug: every register contains its address. */
function slaveAt(plug: Plug, unit: number): void {
  plug.onBytes = bytes => {
    if (bytes.length !== 8 || bytes[0] !== unit) return
    const [from, count] = [bytes.readUInt16BE(2), bytes.readUInt16BE(4)]
    const words = Array.from({ length: count }, (_, k) => [(from + k) >> 8, (from + k) & 0xff]).flat()
    plug.write(frameRtu(unit, Uint8Array.of(bytes[1]!, words.length, ...words)))
  }
}

test('RTU: an unplugged adapter is a lost link for all its sources, and is used again when it returns (R14)', async () => {
  const ptys = new Ptys()
  const plug = await ptys.port(join(dir, 'usb'))
  slaveAt(plug, 3)
  const supervisor = new Supervisor()
  const read = new Map<string, number>()
  supervisor.onReadings(({ name }) => read.set(name, (read.get(name) ?? 0) + 1))
  const options = { port: plug.path, interval_ms: 100, timeout_ms: 100, registers: holding(7) }
  const state = (name: string) => supervisor.get(name)!.state
  try {
    for (const [name, slave] of [
      ['meter', 3],
      ['pump', 3],
      ['dead', 4],
    ] as const)
      supervisor.add(modbusRtu.create(name, { ...options, slave }, context))
    await until('both are read', () => read.get('meter')! > 1 && read.get('pump')! > 1)
    await until('one is dead', () => /no answer from slave 4/.test(JSON.stringify(state('dead'))))
    await plug.unplug()
    await until('all are down', () => ['meter', 'pump', 'dead'].every(name => state(name).state === 'down'))
    assert.match(JSON.stringify(state('meter')), /unplugged/)
    read.clear()
    await plug.plug()
    await until('both are read again', () => read.get('meter')! > 1 && read.get('pump')! > 1)
  } finally {
    await supervisor.stop()
    ptys.close()
  }
})

test('RTU: a port whose driver cannot switch the direction is refused by name, with what to do', async () => {
  const ptys = new Ptys()
  const plug = await ptys.port(join(dir, 'plain'))
  slaveAt(plug, 3)
  const options = { port: plug.path, slave: 3, registers: holding(7) }
  const source = modbusRtu.create('meter', { ...options, direction: 'kernel' }, context)
  await assert.rejects(source.open(events().events), (error: OsError) => {
    assert.equal(error.code, 'UNSUPPORTED')
    assert.match(error.hint!, /direction/)
    return true
  })
  await source.close()
  const auto = await open(modbusRtu.create('meter', options, context))
  assert.deepEqual(await values(auto), [7])
  ptys.close()
})

test('a gateway reads, logs and tests Modbus sources; for an absent server it says why', async () => {
  const port = await freePort()
  await run(server, 'tcp', String(port))
  const tcp = { type: 'modbus_tcp', host: '127.0.0.1', interval_ms: 200, timeout_ms: 10_000 }
  const machine = new Machine(join(dir, 'gateway'), 'run', {
    device_id: 'GW',
    gateway: {
      sources: [
        {
          ...tcp,
          name: 'plc',
          port,
          registers: [
            {
              id: 'level',
              table: 'input',
              address: 7,
              scale: 0.1,
              unit: 'Cel',
              status: [{ above: 100, status: 'ALARM' }],
            },
          ],
        },
        { ...tcp, name: 'gone', port: await freePort(), registers: holding(1) },
        { ...tcp, name: 'odd', port, unit: 5, registers: holding(1) },
      ],
    },
  })
  const web = await freePort()
  await machine.start(['--port', String(web)], web)
  try {
    // queried immediately: a gateway that is just starting knows its sources, or waits until it does
    const tested = machine.json('source', 'test', 'plc')
    assert.deepEqual(tested.readings, [
      { sensor_id: 'level', raw: '03 ef', status: 'ALARM', value: 100.7, unit: 'Cel' },
    ])
    assert.match(machine.run('source', 'test', 'gone').stderr, /gone is down: no connection to .* \(ECONNREFUSED\)/)
    assert.match(machine.output, /WARN .*odd.*unit: no such option; did you mean unit_id\?/)
    const logged = await until('readings are logged', () => machine.logFacts()[0])
    assert.deepEqual([logged.s1_id, logged.s1_s], ['level', 'ALARM'])
  } finally {
    await machine.stop()
  }
  const alone = machine.run('source', 'test', 'plc')
  assert.equal(alone.code, 0)
  assert.match(alone.stdout, /level +03 ef +ALARM +100\.7 +°C/)
})
