// Gateways, a broker and an upstream, with an existing backlog: thousands of facts through the default window, a broker
// that drops, one that is killed with and without its files, an upstream whose disk is full.
// Long: more facts wait
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { FlashLog } from '../../src/log'
import { createMqtt, type MqttListener, type MqttSender } from '../../src/media/mqtt'
import type { Fact } from '../../src/pipeline/fact'
import { UplinkEncoder } from '../../src/pipeline/sender'
import { buildIdRequest, buildPing, buildTimeRequest } from '../../src/protocol/control'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { COMMAND } from '../../src/wire/commands'
import { askControl } from '../lib/control'
import {
  databaseKeys,
  freePort,
  freeUdpPort,
  keyOf,
  type LoggedSensor,
  Machine,
  removeDir,
  sensorsOf,
  tempDir,
  until,
} from '../lib/gateway'
import { rounds } from '../lib/random'
import { type Server, type ServerOptions, startMosquitto } from '../lib/servers'

// killed on purpose: no reason to distrust the configuration
process.env.OS_NODE_SAFE_MODE = 'off'

const AID = 33
const T0 = 1_710_000_000_000
const units = { ...wireUnits(), resolve }
const RESOURCES = { application_status: { mqtt: true } }

const dir = tempDir()
const tmpfs = join(dir, 'small')
mkdirSync(tmpfs)
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'none', tmpfs]).status === 0
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  if (mounted) execFileSync('umount', ['-l', tmpfs])
  removeDir(dir)
})

/** Each sensor changes at its own rate, so that most packets are a DIFF of one sensor on the state of the others. */
const backlogFact = (k: number): Fact => ({
  id: 'GW',
  state: 'ONLINE',
  tRaw: T0 + 10 * k,
  aid: AID,
  sensors: [
    [1, k],
    [7, 100 + Math.floor(k / 7)],
    [50, 5000 + Math.floor(k / 50)],
  ].map(([pace, value]) => ({ id: `every${pace}`, status: 'OK', unit: 'K', value: value! })),
})

interface World {
  broker: Server
  up: Machine
  gw: Machine
  upWeb: number
  startUp(): Promise<void>
  startGw(): Promise<void>
  uplink(): Promise<{ acked: number; backlog: number }>
}

/** `count` of its own facts wait in the gateway's log; only the broker is started. */
async function world(
  t: TestContext,
  name: string,
  count: number,
  {
    broker: lines,
    uplink = {},
    sources = [],
    upDir,
  }: { broker: ServerOptions; uplink?: object; sources?: object[]; upDir?: string },
): Promise<World> {
  const broker = await startMosquitto(lines)
  t.after(() => broker.stop())
  const link = { name: 'mqtt', medium: 'MQTT', host: '127.0.0.1', port: broker.port }
  const up = new Machine(upDir ?? join(dir, name, 'up'), 'serve', {
    web_user: { auth_enabled: false },
    RESOURCES,
    gateway: { receivers: [link] },
  })
  const gw = new Machine(join(dir, name, 'gw'), 'run', {
    device_id: 'GW',
    assigned_id: AID,
    RESOURCES,
    gateway: {
      time: { hold_unsynced_s: 0 },
      sources,
      uplinks: [{ ...link, ...uplink }],
      log: { commit_interval_ms: 100 },
    },
  })
  machines.push(up, gw)
  t.after(async () => {
    await gw.stop('SIGKILL')
    await up.stop('SIGKILL')
  })
  mkdirSync(gw.dataDir, { recursive: true })
  const log = await FlashLog.open({ dir: join(gw.dataDir, 'log') })
  for (let k = 0; k < count; k++) {
    log.appendFact(backlogFact(k), { medium: 'local' }, 'synced')
    if (k % 1000 === 999) await log.flush()
  }
  await log.close()
  const [upWeb, gwWeb, udp] = [await freePort(), await freePort(), await freeUdpPort()]
  return {
    broker,
    up,
    gw,
    upWeb,
    startUp: async () => {
      await up.start(['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(upWeb)], upWeb)
      await until('the receiver is up', async () => (await askControl(up.dataDir, 'status')).links.mqtt.state === 'up')
    },
    startGw: () => gw.start(['--port', String(gwWeb)], gwWeb),
    uplink: async () => (await askControl(gw.dataDir, 'status')).uplinks.mqtt,
  }
}

const context = { clock: systemClock, logger: silentLogger }
const events = { lost: () => undefined, degraded: () => undefined }

/** Its sources on or off while it runs, as its configuration says. */
async function readings(gw: Machine, on: boolean): Promise<void> {
  const config = JSON.parse(readFileSync(gw.config, 'utf8'))
  const sources = [{ name: 'memory', type: 'memory', interval_ms: 200 }]
  gw.configure({ ...config, gateway: { ...config.gateway, sources: on ? sources : [] } })
  await askControl(gw.dataDir, 'reload')
}

/** Whatever the upstream has, has the values of the gateway's log for that time. Returns the upstream's keys. */
function sameValues(up: Machine, gw: Machine): string[] {
  const sent = new Map(gw.logFacts().map(fact => [keyOf(fact), fact]))
  const facts = up.logFacts().filter(fact => fact.id === 'GW')
  for (const fact of facts) {
    const one = sent.get(keyOf(fact))
    assert.ok(one, `${keyOf(fact)} was never sent`)
    for (const [k, { id, value }] of sensorsOf(fact).entries()) {
      const wanted: LoggedSensor = sensorsOf(one)[k]!
      assert.equal(id, wanted.id)
      // four decimals are sent on the wire
      assert.ok(Math.abs(value! - wanted.value!) <= 0.00005, `${keyOf(fact)} ${id}: ${value}, not ${wanted.value}`)
    }
  }
  const keys = facts.map(keyOf)
  assert.equal(new Set(keys).size, keys.length, 'no fact is in the log of the upstream twice')
  return keys
}

// most of the time is spent waiting for processes to start and for links to return
describe('paths over a broker', { concurrency: 3 }, () => {
  test('thousands of waiting facts are drained through the default window, with control packets in between, every row once', async t => {
    const count = rounds(4000, 10_000)
    const { broker, up, gw, upWeb, startUp, startGw, uplink } = await world(t, 'many', count, {
      broker: { lines: ['max_queued_messages 0'] },
    })
    await startUp()
    const identity = { aid: null, installId: 'other0000001', onAssigned: () => () => undefined }
    const options = { host: '127.0.0.1', port: broker.port }
    const states: string[] = []
    const watch = createMqtt(
      'watch',
      { ...options, mode: 'listen', qos: 0, topics: { up: 'os/<aid>/state' } },
      { ...context, identity },
    ) as MqttListener
    t.after(() => watch.close())
    watch.onPacket((packet, { address }) => states.push(`${address.split('/').at(-1)} ${Buffer.from(packet)}`))
    await watch.open(events)

    // another node sends requests and undecodable packets: each occupies a slot until it is settled
    const asker = createMqtt('asker', options, { ...context, identity }) as MqttSender
    t.after(() => asker.close())
    const answers = new Map<number, number>()
    asker.onPacket(packet => answers.set(packet[0]!, (answers.get(packet[0]!) ?? 0) + 1))
    await asker.open(events)
    const stranger = new UplinkEncoder({ aid: 77, units, diffBase: 'last', fullEvery: 1_000_000 })
    stranger.encode({ ...backlogFact(0), id: 'OTHER', aid: 77 })
    await startGw()
    const asked = rounds(80, 200)
    for (let k = 1; k <= asked; k++) {
      const diff = stranger.encode({ ...backlogFact(k), id: 'OTHER', aid: 77 }).bytes
      const requests = [
        buildPing(k),
        buildTimeRequest(k),
        buildIdRequest(k, { device_id: 'asker' }),
        diff,
        Buffer.from([0xee]),
      ]
      const taken = await Promise.all(requests.map(packet => asker.send(packet)))
      assert.ok(taken.every(Boolean))
    }
    await until('the backlog is gone', async () => (await uplink()).backlog === 0)
    const keys = await until('every fact is a row', async () => {
      const rows = (await databaseKeys(upWeb, '')).filter(key => key.startsWith('GW '))
      return rows.length >= count ? rows : null
    }).catch(error => assert.fail(`${error}: ${JSON.stringify(up.json('status').received)}`))
    assert.equal(keys.length, count)
    for (const type of [COMMAND.PONG, COMMAND.TIME_RESPONSE, COMMAND.ID_ASSIGN, COMMAND.HANDSHAKE_NACK])
      await until(`answers ${type}`, () => (answers.get(type) ?? 0) >= asked).catch(() =>
        assert.fail(`${type}: ${JSON.stringify([...answers])}`),
      )
    await until('online', () => states.includes(`${AID} {"state":"online"}`))
    await gw.stop('SIGKILL')
    await until('offline, by the last will', () => states.at(-1) === `${AID} {"state":"offline"}`)
    await up.stop('SIGTERM')
    assert.equal(sameValues(up, gw).length, count)
  })

  test('with a broker that drops acknowledged packets, the packets that arrive are those that were sent', async t => {
    const count = 4000
    const { up, gw, startUp, startGw, uplink } = await world(t, 'drops', count, {
      broker: { lines: ['max_queued_messages 50'] },
      uplink: { rate_packets_s: 600 },
      sources: [{ name: 'memory', type: 'memory', interval_ms: 100 }],
    })
    await startUp()
    await startGw()
    await until('some are present', async () => (await askControl(up.dataDir, 'status')).received.facts > 300)
    await up.stop('SIGKILL')
    const before = (await uplink()).acked
    await until('much is removed', async () => (await uplink()).acked > before + 500)
    await startUp()
    await until('the backlog is gone', async () => (await uplink()).backlog < 30)
    const { facts } = (await askControl(up.dataDir, 'status')).received
    await until('live facts arrive', async () => (await askControl(up.dataDir, 'status')).received.facts > facts + 10)
    await gw.stop('SIGTERM')
    await up.stop('SIGTERM')
    const keys = sameValues(up, gw)
    const backlog = keys.filter(key => Number(key.split(' ')[1]) < T0 + 10 * count)
    assert.ok(backlog.length < count - 50, `the broker dropped something: ${backlog.length} of ${count} came`)
    assert.ok(backlog.length > 100, `${backlog.length} of ${count} came`)
  })

  for (const persistence of [true, false])
    test(`a broker killed while the upstream is away, ${persistence ? 'with its files: nothing is lost' : 'without: only what it had acknowledged is lost'}`, async t => {
      const count = 400
      const { broker, up, gw, startUp, startGw, uplink } = await world(t, `killed-${persistence}`, count, {
        broker: { persistence, lines: ['max_queued_messages 0'] },
        sources: [{ name: 'memory', type: 'memory', interval_ms: 200 }],
      })
      await startUp()
      await up.stop('SIGTERM')
      await startGw()
      await until('the broker accepted the backlog', async () => (await uplink()).acked >= count)
      // nothing is in flight when it is killed
      await readings(gw, false)
      await until('the broker accepted everything', async () => (await uplink()).backlog === 0)
      if (persistence) {
        const file = join(broker.dir, 'mosquitto.db')
        rmSync(file, { force: true })
        process.kill(broker.pid!, 'SIGUSR1')
        await until('its file is written', () => existsSync(file))
      }
      const { acked } = await uplink()
      await broker.kill()
      await until(
        'the uplink is down',
        async () => (await askControl(gw.dataDir, 'status')).links.mqtt.state === 'down',
      )
      await broker.restart()
      await startUp()
      await until('the uplink is up', async () => (await askControl(gw.dataDir, 'status')).links.mqtt.state === 'up')
      const before = new Set((await gw.facts()).map(keyOf))
      await readings(gw, true)
      const { facts } = (await askControl(up.dataDir, 'status')).received
      await until(
        'live facts arrive',
        async () => (await askControl(up.dataDir, 'status')).received.facts >= facts + 10,
      )
      await readings(gw, false)
      await until('the broker accepted the remaining packets', async () => (await uplink()).backlog === 0)
      await gw.stop('SIGTERM')
      const sent = gw.logKeys()
      await until('later records are present', async () => {
        const came = new Set((await up.facts()).map(keyOf))
        return sent.every(key => before.has(key) || came.has(key))
      })
      await up.stop('SIGTERM')
      const came = new Set(sameValues(up, gw))
      const missing = sent.filter(key => !came.has(key))
      if (persistence) assert.deepEqual(missing, [])
      // what was acknowledged, and no more
      else assert.ok(missing.length >= count && missing.length <= acked, `${missing.length} missing, ${acked} acked`)
    })

  test('R3: an upstream whose disk is full accepts nothing, says so, and continues when there is room', {
    skip: mounted ? false : 'this machine has no right to mount a tmpfs',
  }, async t => {
    const count = 2000
    const { up, gw, startUp, startGw, uplink } = await world(t, 'full', count, {
      broker: { lines: ['max_queued_messages 0'] },
      uplink: { rate_packets_s: 250 },
      upDir: join(tmpfs, 'up'),
    })
    await startUp()
    await startGw()
    await until('some are present', async () => (await askControl(up.dataDir, 'status')).received.facts > 200)
    const filler = join(tmpfs, 'filler')
    spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k'])
    await until('it is reported', async () => (await askControl(up.dataDir, 'status')).log.state !== 'ok')
    await until('the broker has everything', async () => (await uplink()).backlog === 0)
    rmSync(filler)
    await until('all is there', async () => (await up.facts()).filter(({ id }) => id === 'GW').length >= count).catch(
      async error => assert.fail(`${error}: ${JSON.stringify(await up.ask('status'))}`),
    )
    await gw.stop('SIGTERM')
    await up.stop('SIGTERM')
    assert.equal(sameValues(up, gw).length, count)
    writeFileSync(filler, '')
  })
})
