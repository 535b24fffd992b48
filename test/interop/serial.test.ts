// Real gateways on serial lines: pseudo-terminals joined by the test, which unplugs, adds noise and plays firmware.
// Everything sent arrives, is in both logs once, and is acknowledged over the same wires.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { frameSerial } from '../../src/wire/serial'
import { type LoggedFact, Machine, root, sensorsOf, sleep, until } from '../lib/gateway'
import { peerFrame } from '../lib/peer'
import { prng } from '../lib/random'
import { damaged, SerialBus } from '../lib/serialbus'
import { acknowledged, delivered, readings, SerialGateways, status } from '../lib/serialgateways'

let world: SerialGateways
before(() => {
  world = new SerialGateways()
})
after(() => world.close())

test('UART: an uplink with noise and unplugged cables loses nothing, and is back within two seconds', async t => {
  const [a, b] = [await world.port('up0'), await world.port('gw0')]
  const random = prng(3)
  let noisy = false
  new SerialBus([a, b], {
    noise: bytes => {
      if (!noisy || random() > 0.1) return bytes
      bytes[Math.floor(random() * bytes.length)]! ^= 0x41
      return bytes
    },
  })
  const up = await world.machine('up0m', 'serve', {
    receivers: [{ name: 'serial', medium: 'UART', port: a.path, baudrate: 921_600 }],
  })
  const gw = await world.machine(
    'GW0',
    'run',
    {
      sources: readings(),
      uplinks: [{ name: 'up', medium: 'UART', baudrate: 921_600, full_every: 20, full_interval_seconds: 2 }],
    },
    { uart: { port: b.path } },
  )
  const acked = async (): Promise<number> => (await status(gw)).uplinks.up.acked
  await acknowledged(gw, 10, up)
  noisy = true
  await sleep(2000)
  noisy = false
  // measured at the unplugged end; a busy machine may be late, so the best of some tries counts
  const back: number[][] = [[], []]
  const flows: number[][] = [[], []]
  const isLate = (): boolean => [...back, ...flows].some(times => Math.min(...times) >= 2000)
  for (let k = 0; k < 5 || (k < 16 && isLate()); k++) {
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
    const before = await acked()
    await until('open again', async () =>
      /up|degraded/.test((await status(who as Machine)).links[link as string].state),
    )
    back[k % 2]!.push(performance.now() - start)
    await until('a packet is acknowledged again', async () => (await acked()) > before)
    flows[k % 2]!.push(performance.now() - start)
  }
  const list = (all: number[][]): string => all.map(times => times.map(ms => ms.toFixed(0)).join(', ')).join(' and ')
  const told = `ms after the plug was in: open ${list(back)}; packets acknowledged ${list(flows)}`
  t.diagnostic(told)
  assert.ok(!isLate(), told)
  const count = await delivered(gw, up)
  t.diagnostic(`${count} facts`)
  assert.ok(count > 15)
})

test('UART: frames of C firmware and of dispatch are received on a port that an uplink shares', async () => {
  const [a, b] = [await world.port('up1'), await world.port('cli1')]
  new SerialBus([a, b])
  const up = await world.machine(
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
  const seconds = Math.floor(Date.now() / 1000) - 10
  const facts = (): LoggedFact[] => up.logFacts()
  const say = (frame: Uint8Array): void =>
    a.write(Buffer.concat([Buffer.from([0xff, 0x00, 0x03]), frameSerial(frame, 'uart')]))
  const value = (text: string): Buffer => Buffer.concat([Buffer.of(2, text.length), Buffer.from(text)])
  // one sensor: times ten thousand in base 62; several: FULL once, then DIFF, then HEART
  say(peerFrame(0x3f, [77], 2, seconds, 'T1|A01|2Bi'))
  say(peerFrame(0x3f, [78], 1, seconds, `FX.ONLINE.${seconds}|S1>OK.Cel:2Bi|`))
  say(peerFrame(0xaa, [78], 1, seconds + 1, value('3Cj')))
  say(peerFrame(0x7f, [78], 1, seconds + 2, ''))
  const found = await until('the firmware is in the log', () => {
    const [one] = facts().filter(fact => sensorsOf(fact).some(({ id }) => id === 'T1'))
    const many = facts().filter(fact => sensorsOf(fact).some(({ id }) => id === 'S1'))
    return one && many.length === 3 ? { one, many } : null
  })
  assert.equal(Math.floor(found.one.t_raw / 1000), seconds)
  assert.equal(sensorsOf(found.one)[0]!.unit, 'K')
  assert.deepEqual(
    found.many.map(fact => Math.floor(fact.t_raw / 1000) - seconds),
    [0, 1, 2],
  )
  const [full, changed, same] = found.many.map(fact => sensorsOf(fact)[0]!.value!)
  assert.ok(changed! > full!, `${full} ${changed}`)
  assert.equal(same, changed)

  const cli = new Machine(join(world.dir, 'cli'), 'run', {
    device_id: 'CLI',
    assigned_id: 9,
    RESOURCES: { physical_status: { uart: true }, physical_config: { uart: { port: b.path } } },
  })
  const sent = cli.run('transmit', '--sensors', '[["S9","OK",21.5,"Cel"]]', '--medium', 'UART')
  assert.equal(sent.code, 0, sent.stderr + sent.stdout)
  await until('what was dispatched is in the log', () => facts().find(one => one.id === 'CLI'))
})

test('the built files run from a folder without node_modules, serial ports included', async () => {
  const place = join(world.dir, 'alone')
  cpSync(join(root, 'dist'), place, { recursive: true })
  const plug = await world.port('alone-port')
  let bytes = 0
  plug.onBytes = chunk => {
    bytes += chunk.length
  }
  const config = join(world.dir, 'alone.json')
  const RESOURCES = { physical_status: { uart: true }, physical_config: { uart: { port: plug.path } } }
  writeFileSync(config, JSON.stringify({ assigned_id: 5, RESOURCES }))
  const args = ['transmit', '--value', '1', '--unit', 'K', '--medium', 'UART', '--config', config]
  // with the addon next to it, and with the one inside it
  for (const alone of [false, true]) {
    bytes = 0
    if (alone) rmSync(join(place, 'native'), { recursive: true })
    const ran = spawn(
      process.execPath,
      [join(place, 'os-node.js'), ...args, '--data-dir', join(world.dir, 'alone-data')],
      { cwd: world.dir, env: { PATH: process.env.PATH } },
    )
    const code = await new Promise(resolve => ran.once('exit', resolve))
    assert.equal(code, 0)
    await until('the packet came', () => bytes > 16)
  }
})

test('UART with framing cobs, for os-node at both ends: bytes that are lost, added and changed lose nothing', async t => {
  const [a, b] = [await world.port('up3'), await world.port('gw3')]
  const random = prng(5)
  new SerialBus([a, b], { noise: bytes => damaged(bytes, random, 0.1) })
  const common = { medium: 'UART', baudrate: 921_600, framing: 'cobs' }
  const up = await world.machine('up3m', 'serve', { receivers: [{ ...common, name: 'serial', port: a.path }] })
  const uplinks = [{ ...common, name: 'up', full_every: 20, full_interval_seconds: 2 }]
  const gw = await world.machine('GW3', 'run', { sources: readings(), uplinks }, { uart: { port: b.path } })
  await acknowledged(gw, 40, up)
  const { detail } = (await status(up)).links.serial
  assert.ok(detail.noise_bytes > 0, 'there was noise')
  t.diagnostic(`${await delivered(gw, up)} facts, ${detail.noise_bytes} bytes of noise`)
})
