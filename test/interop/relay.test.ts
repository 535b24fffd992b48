// Chained relays: devices without the exchange send to a gateway, which forwards their facts and its own readings over
// another gateway, and directly while that one is away. The paths lose packets and both gateways are killed. At the end
// every fact is present under its own device, with its time and values, once, whichever path it took.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import {
  freePort,
  freeUdpPort,
  keyOf,
  type LoggedFact,
  Machine,
  removeDir,
  sensorsOf,
  tempDir,
  until,
} from '../lib/gateway'
import { LossyProxy } from '../lib/lossy'
import { peerFrame } from '../lib/peer'
import { assertSame } from '../lib/same'

const SECONDS = 1_710_000_000
const dir = tempDir()
const machines: Machine[] = []
const proxies: LossyProxy[] = []
const socket = createSocket('udp4')
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  for (const proxy of proxies) proxy.close()
  socket.close()
  removeDir(dir)
})

test('two paths to one server, one over another gateway, with losses and kill -9 on both: every fact arrives once, whichever path it took', async () => {
  const [entry, middle, end, roadToMiddle, roadOn, roadDirect] = await Promise.all(
    Array.from({ length: 6 }, freeUdpPort),
  )
  const [webA, webB, webC] = await Promise.all(Array.from({ length: 3 }, freePort))
  const options = { drop: 0.1, late: 0.1 }
  proxies.push(await LossyProxy.open(roadToMiddle!, middle!, { ...options, seed: 3 }))
  proxies.push(await LossyProxy.open(roadOn!, end!, { ...options, seed: 4 }))
  proxies.push(await LossyProxy.open(roadDirect!, end!, { ...options, seed: 5 }))
  const uplink = (name: string, port: number): Record<string, unknown> => ({
    ...{ name, medium: 'UDP', host: '127.0.0.1', port, full_interval_seconds: 2 },
  })
  const config = (k: number, port: number, uplinks: unknown[], sources: unknown[] = []): Record<string, unknown> => ({
    device_id: `GW${k}`,
    assigned_id: 100 + k,
    gateway: {
      sources,
      receivers: [{ name: 'in', medium: 'UDP', host: '127.0.0.1', port }],
      uplinks,
      failover: { after_s: 1, back_s: 2 },
      log: { commit_interval_ms: 100 },
    },
  })
  const ways = [uplink('over', roadToMiddle!), uplink('direct', roadDirect!)]
  const sources = ['cpu', 'memory'].map((type, n) => ({ name: type, type, interval_ms: 100 + 20 * n }))
  const a = new Machine(join(dir, 'a'), 'run', config(1, entry!, ways, sources))
  const b = new Machine(join(dir, 'b'), 'run', config(2, middle!, [uplink('on', roadOn!)]))
  const c = new Machine(join(dir, 'c'), 'serve', {})
  machines.push(a, b, c)
  await c.start(['--host', '127.0.0.1', '--port', String(end), '--web-port', String(webC)], webC!)
  await b.start(['--port', String(webB)], webB!)
  await a.start(['--port', String(webA)], webA!)
  // by the control socket: a command would block the paths, which are in this process
  const status = (of = a) => askControl(of.dataDir, 'status')
  await until('it listens', async () => (await status()).links.in.state === 'up')

  // C firmware in whole seconds, three samples in each; a device without a clock; one with milliseconds
  const sent = { firmware: 0, clockless: 0, plain: 0 }
  const all = (): number => sent.firmware + sent.clockless + sent.plain
  let heard = 0
  const send = (frame: Uint8Array): void => socket.send(frame, entry!, '127.0.0.1')
  const devices = setInterval(() => {
    // packets that a gateway without processor time has not read yet must fit its socket buffer
    if (all() > heard + 150) return
    const second = SECONDS + Math.floor(sent.firmware / 3)
    send(peerFrame(0x3f, [9], 1, second, `T1|A01|${(10 + sent.firmware++).toString(36)}`))
    send(peerFrame(0x3f, [10], 1, 0, `10;BARE.1.AAAAAAAA|s>K.K:${(10 + sent.clockless++).toString(36)}|`))
    const ms = SECONDS * 1000 + 50 * sent.plain
    const token = Buffer.from(ms.toString(16).padStart(12, '0'), 'hex').toString('base64url')
    if (sent.plain++ % 5 === 0) send(peerFrame(0x3f, [11], 1, ms, `11;PLAIN.1.${token}|s>K.9:1A|u>K.C00:b|`))
    else send(peerFrame(0xaa, [11], 1, ms, Buffer.from([0x02, 1, 0x30 + (sent.plain % 10)])))
  }, 50)
  const carries = async (name: string, more: number): Promise<boolean> => {
    const { forwarding, uplinks, received } = await status()
    heard = received.facts
    return forwarding.uplink === name && uplinks[name].acked > more
  }
  await until('the first path is active', () => carries('over', 20))
  await b.stop('SIGKILL')
  await until('the second path is active', () => carries('direct', 20))
  await b.start(['--port', String(webB)], webB!)
  const before = (await status()).uplinks.over.acked
  await until('the first path is active again', () => carries('over', before + 20))
  clearInterval(devices)
  const seen = await until('every packet is heard', async () => {
    const { received, log } = await status()
    return received.facts === all() && (log.last_seq as number)
  })
  await until('all of it is on flash', async () => (await status()).log.committed_seq >= seen)
  await a.stop('SIGKILL')
  a.configure(config(1, entry!, ways))
  await a.start(['--port', String(webA)], webA!)
  for (const machine of [a, b])
    await until('nothing is pending', async () => (await status(machine)).forwarding.backlog === 0)
  await Promise.all([a.stop(), b.stop(), c.stop()])

  const logged = a.logFacts()
  const count = (aid: number): number => logged.filter(fact => fact.source_aid === aid).length
  assert.ok(
    count(9) === sent.firmware && count(10) === sent.clockless && count(11) === sent.plain,
    'the first road is good',
  )
  // three facts of the firmware device have one time
  const others = (facts: LoggedFact[]): LoggedFact[] => facts.filter(fact => fact.source_aid !== 9)
  const ofFirmware = (facts: LoggedFact[]): string[] =>
    facts
      .filter(fact => fact.source_aid === 9)
      .map(fact => `${keyOf(fact)} ${sensorsOf(fact)[0]!.value!.toFixed(4)}`)
      .sort()
  const atTheEnd = c.logFacts()
  assertSame(others(logged), others(atTheEnd))
  assert.deepEqual(ofFirmware(atTheEnd), ofFirmware(logged))
  const overB = b.logFacts().map(keyOf)
  const known = new Set(logged.map(keyOf))
  assert.ok(overB.length > 40 && overB.length < logged.length, `${overB.length} of ${logged.length} went the first way`)
  assert.ok(overB.every(key => known.has(key)))
})
