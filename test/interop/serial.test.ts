// Real gateways on serial lines: pseudo-terminals joined by the test, which pulls plugs, adds noise and plays firmware.
// Everything sent arrives, is in both logs once, and is acknowledged over the same wires.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { frameSerial } from '../../src/wire/serial'
import { askControl } from '../lib/control'
import {
  freePort,
  keyOf,
  type LoggedFact,
  Machine,
  removeDir,
  root,
  sensorsOf,
  sleep,
  tempDir,
  until,
} from '../lib/gateway'
import { peerFrame } from '../lib/peer'
import { type Plug, Ptys } from '../lib/ptys'
import { prng } from '../lib/random'
import { assertSame } from '../lib/same'
import { SerialBus } from '../lib/serialbus'

const dir = tempDir()
const machines: Machine[] = []
let ptys: Ptys
before(() => {
  ptys = new Ptys()
})
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  ptys.close()
  removeDir(dir)
})

const port = (name: string): Promise<Plug> => ptys.port(join(dir, name))
const on = { uart: true, rs485: true }
/** readings of this machine, `perSecond` groups a second */
const sources = (interval_ms = 100) =>
  ['uptime', 'memory'].map((type, k) => ({ name: type, type, interval_ms: interval_ms + 7 * k }))

async function machine(name: string, verb: 'run' | 'serve', gateway: unknown, physical_config = {}): Promise<Machine> {
  const config = { device_id: name, gateway: { log: { commit_interval_ms: 100 }, ...(gateway as object) } }
  const made = new Machine(join(dir, name), verb, {
    ...config,
    RESOURCES: { physical_status: on, physical_config },
  })
  machines.push(made)
  const web = String(await freePort())
  await made.start(verb === 'serve' ? ['--host', '127.0.0.1', '--port', '0', '--web-port', web] : ['--port', web])
  return made
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the status holds
const status = (of: Machine): Promise<any> => askControl(of.dataDir, 'status')

/** What `from` has logged is in the log of `to`, once, with the same values. */
async function delivered(from: Machine, to: Machine): Promise<number> {
  await until('all is acknowledged', async () => {
    const { log, forwarding } = await status(from)
    return log.committed_seq > 5 && forwarding.cursor >= log.committed_seq - 3
  })
  await from.stop()
  const sent = from.logFacts()
  // what came in the last moment may lie between the last acknowledgement and the stop
  const missing = (): LoggedFact[] => {
    const there = new Set(to.logFacts().map(keyOf))
    return sent.filter(fact => !there.has(keyOf(fact)))
  }
  const open = missing()
  assert.ok(open.length <= 8, `${open.length} of ${sent.length} are missing`)
  for (const fact of open) assert.ok(sent.indexOf(fact) >= sent.length - 10, 'only the last ones may be on their way')
  const lost = new Set(open.map(keyOf))
  const mine = to.logFacts().filter(({ id }) => id === sent[0]!.id)
  assert.equal(new Set(mine.map(keyOf)).size, mine.length, 'nothing twice')
  assertSame(
    sent.filter(fact => !lost.has(keyOf(fact))),
    mine,
  )
  return sent.length
}

test('UART: an uplink through noise and pulled plugs loses nothing, and is back within two seconds', async t => {
  const [a, b] = [await port('up0'), await port('gw0')]
  const random = prng(3)
  let noisy = false
  new SerialBus([a, b], {
    noise: bytes => {
      if (!noisy || random() > 0.1) return bytes
      bytes[Math.floor(random() * bytes.length)]! ^= 0x41
      return bytes
    },
  })
  const up = await machine('up0m', 'serve', {
    receivers: [{ name: 'serial', medium: 'UART', port: a.path, baudrate: 921_600 }],
  })
  const gw = await machine(
    'GW0',
    'run',
    {
      sources: sources(),
      uplinks: [{ name: 'up', medium: 'UART', baudrate: 921_600, full_every: 20, full_interval_seconds: 2 }],
    },
    { uart: { port: b.path } },
  )
  const acked = async (): Promise<number> => (await status(gw)).uplinks.up.acked
  await until('works', async () => (await acked()) > 10, 8000).catch(async error => {
    throw new Error(
      `${error.message}\n${JSON.stringify((await status(gw)).links.up)}\n${JSON.stringify((await status(up)).links.serial)}\n${gw.output.slice(-1500)}\n${up.output.slice(-1500)}`,
    )
  })
  noisy = true
  await sleep(2000)
  noisy = false
  const back: number[] = []
  for (let k = 0; k < 5; k++) {
    const plug = k % 2 === 0 ? b : a
    await plug.unplug()
    const [who, link] = plug === b ? [gw, 'up'] : [up, 'serial']
    const down = await until('down is told', async () => {
      const state = (await status(who as Machine)).links[link as string]
      return state.state === 'down' && state
    })
    assert.match(down.reason, /unplugged|no serial port/)
    await plug.plug()
    const start = performance.now()
    await until('open again', async () => (await status(who as Machine)).links[link as string].state !== 'down')
    back.push(performance.now() - start)
    const before = await acked()
    await until('works again', async () => (await acked()) > before + 5)
  }
  t.diagnostic(`noticed ${back.map(ms => ms.toFixed(0)).join(', ')} ms after the plug was in`)
  assert.ok(Math.max(...back) < 2000)
  const count = await delivered(gw, up)
  t.diagnostic(`${count} facts`)
  assert.ok(count > 60)
})

test('UART: frames of C firmware and of dispatch are received on a port that an uplink shares', async () => {
  const [a, b, far] = [await port('up1'), await port('cli1'), await port('far1')]
  const bus = new SerialBus([a, b])
  const up = await machine(
    'up1m',
    'run',
    {
      sources: [],
      receivers: [{ name: 'serial', medium: 'UART' }],
      uplinks: [{ name: 'further', medium: 'UART', delivery: 'best_effort' }],
    },
    { uart: { port: a.path } },
  )
  await until('open', async () => (await status(up)).links.serial.state === 'up')
  const seconds = Math.floor(Date.now() / 1000)
  const frame = peerFrame(0x3f, [77], 2, seconds, 'T1|A01|2Bi')
  bus.options.noise = bytes => bytes
  a.write(Buffer.concat([Buffer.from([0xff, 0x00, 0x03]), frameSerial(frame, 'uart')]))
  const facts = (): LoggedFact[] => up.logFacts()
  const fact = await until('the firmware is in the log', () =>
    facts().find(one => sensorsOf(one).some(({ id }) => id === 'T1')),
  )
  assert.equal(Math.floor(fact.t_raw / 1000), seconds)
  assert.equal(sensorsOf(fact)[0]!.unit, 'K')

  const cli = new Machine(join(dir, 'cli'), 'run', {
    device_id: 'CLI',
    assigned_id: 9,
    RESOURCES: { physical_status: on, physical_config: { uart: { port: b.path } } },
  })
  const sent = cli.run('transmit', '--sensors', '[["S9","OK",21.5,"Cel"]]', '--medium', 'UART')
  assert.equal(sent.code, 0, sent.stderr + sent.stdout)
  await until('what was dispatched is in the log', () => facts().find(one => one.id === 'CLI'))
  await far.unplug()
})

test('the built files run from a folder without node_modules, serial ports included', async () => {
  const place = join(dir, 'alone')
  cpSync(join(root, 'dist'), place, { recursive: true })
  const plug = await port('alone-port')
  let bytes = 0
  plug.onBytes = chunk => {
    bytes += chunk.length
  }
  const config = join(dir, 'alone.json')
  const RESOURCES = { physical_status: on, physical_config: { uart: { port: plug.path } } }
  writeFileSync(config, JSON.stringify({ assigned_id: 5, RESOURCES }))
  const args = ['transmit', '--value', '1', '--unit', 'K', '--medium', 'UART', '--config', config]
  const ran = spawn(process.execPath, [join(place, 'os-node.js'), ...args, '--data-dir', join(dir, 'alone-data')], {
    cwd: dir,
    env: { PATH: process.env.PATH },
  })
  const code = await new Promise(resolve => ran.once('exit', resolve))
  assert.equal(code, 0)
  await until('the packet came', () => bytes > 16)
})

test('RS485: a master receives from two gateways as slaves, each in its turn, and acknowledges all', async t => {
  const [m, s1, s2] = [await port('m'), await port('s1'), await port('s2')]
  new SerialBus([m, s1, s2], { echo: true })
  const common = { baudrate: 500_000, direction: 'auto_hardware', poll_interval_ms: 10 }
  const up = await machine(
    'up2m',
    'serve',
    { receivers: [{ name: 'bus', medium: 'RS485' }] },
    { rs485: { ...common, port: m.path, role: 'master', slaves: [11, 12, 13], turn_timeout_ms: 100 } },
  )
  const slaves = await Promise.all(
    [s1, s2].map((plug, k) =>
      machine(
        `SLAVE${k}`,
        'run',
        { sources: sources(200), uplinks: [{ name: 'up', medium: 'RS485', full_every: 20 }] },
        { rs485: { ...common, port: plug.path, role: 'slave', address: 11 + k } },
      ),
    ),
  )
  for (const one of slaves)
    await until('acknowledged', async () => (await status(one)).uplinks.up.acked > 20, 30_000).catch(async error => {
      throw new Error(
        `${error.message}\n${JSON.stringify((await status(one)).links.up)}\n${JSON.stringify((await status(up)).links.bus)}\n${one.output.slice(-1500)}`,
      )
    })
  const { links } = await status(up)
  assert.match(links.bus.reason, /no answer from 13/)
  t.diagnostic(JSON.stringify(links.bus.detail))

  for (const one of slaves) await delivered(one, up)
})
