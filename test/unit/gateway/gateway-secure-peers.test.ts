// Secure sessions with peers of other software: built from the component functions as in the vectors, so without
// delivery exchange, without retransmission, and with the key of the first plaintext packet.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { PacketHandler } from '../../../src/links/contracts'
import { Engine } from '../../../src/pipeline/compress'
import { Fusion } from '../../../src/pipeline/fuse'
import { HandshakeManager } from '../../../src/protocol/handshake/manager'
import { isData, isSecure } from '../../../src/wire/commands'
import { World, type WorldOptions } from '../../lib/secureworld'

/** The server of the reference; `silent`: as its receiver really is, which never answers data (X8). */
class ReferenceServer {
  readonly decoded: Record<string, unknown>[] = []
  readonly manager: HandshakeManager
  readonly #silent: boolean

  constructor(silent: boolean) {
    this.#silent = silent
    const parser = new Fusion(null, {
      registryDir: null,
      keys: { outbound: () => null, inbound: aid => this.manager.getSessionKey(aid) },
    })
    this.manager = new HandshakeManager({}, { parser })
  }

  readonly take = (packet: Uint8Array, reply: (packet: Uint8Array) => void): void => {
    const { type, result, response } = this.manager.classifyAndDispatch(packet, ['10.0.0.9', 8080])
    if (type === 'DATA') this.decoded.push(result)
    if (response && !(this.#silent && type === 'DATA')) reply(response)
  }
}

async function worldWith(t: TestContext, server: ReferenceServer, options: WorldOptions = {}): Promise<World> {
  const w = new World({ ...options, peer: server.take })
  t.after(() => w.end())
  return w.start()
}

const values = (decoded: Record<string, unknown>[]): unknown[] => decoded.map(fact => fact['s1_v'])
const sent = (w: World): unknown[] => w.sent.facts.map(fact => fact.sensors[0]!.value)

test('reference server: found by a bare PONG, a session, every fact decoded', async t => {
  const server = new ReferenceServer(false)
  const w = await worldWith(t, server)
  await w.facts(6)
  assert.equal(w.uplink.status().delivery, 'best_effort')
  assert.deepEqual(w.commands.slice(0, 4), ['a:3F', 'b:0D', 'a:40', 'b:0E'])
  assert.ok(w.data.slice(1).every(cmd => isSecure(Number.parseInt(cmd, 16))))
  assert.deepEqual(values(server.decoded), sent(w))
  assert.equal(server.manager.sessions.session(5)?.state, 'SECURE')
  assert.equal(w.client.sessions.session(5)?.state, 'SECURE')
})

test('reference server as it really is, which does not answer data: plaintext continues and is shown as pending', async t => {
  const server = new ReferenceServer(true)
  const w = await worldWith(t, server)
  await w.facts(12)
  assert.ok(w.data.every(cmd => !isSecure(Number.parseInt(cmd, 16))))
  assert.deepEqual(values(server.decoded), sent(w))
  assert.equal(w.uplink.status().secure, 'pending')
  assert.equal(w.link.state.state, 'up')
})

test('reference server, the first packet lost: it takes the key of the first packet it receives, and so do we', async t => {
  const server = new ReferenceServer(false)
  let lost = 0
  const w = await worldWith(t, server, { lose: (p, from) => from === 'a' && isData(p[0]!) && lost++ === 0 })
  await w.facts(3)
  w.uplink.link({ state: 'down', since: 0, reason: '' })
  w.uplink.link({ state: 'up', since: 0 })
  await w.facts(4)
  assert.equal(w.uplink.status().secure, 'secure')
  assert.deepEqual(values(server.decoded).slice(-4), sent(w).slice(-4))
})

test('reference server, the answer lost: it never repeats it, so plaintext continues; nothing is lost', async t => {
  const server = new ReferenceServer(false)
  const w = await worldWith(t, server, { lose: p => p[0] === 0x0d })
  await w.facts(12, 2000)
  assert.deepEqual(values(server.decoded), sent(w))
  assert.equal(w.uplink.status().secure, 'pending')
})

test('reference server with require_secure here: the key request is answered, then everything is encrypted', async t => {
  const server = new ReferenceServer(false)
  const w = await worldWith(t, server, { requireSecure: { client: true } })
  await w.facts(4)
  assert.equal(w.uplink.status().secure, 'secure')
  assert.deepEqual(values(server.decoded).slice(1), sent(w))
  assert.equal(server.decoded[0]!['s1_id'], undefined)
})

test('reference server as it really is, with require_secure here: no reading is sent, and the link says why', async t => {
  const server = new ReferenceServer(true)
  const w = await worldWith(t, server, { requireSecure: { client: true } })
  await w.facts(5, 2000)
  assert.ok(server.decoded.every(fact => fact['s1_id'] === undefined))
  assert.match(JSON.stringify(w.link.state), /degraded.*no secure session: no answer to \d key requests of AID 5/)
})

/**
 * The client of the reference: plaintext until it gets a key message, then the key of its first plaintext packet,
 * whatever packet the message named.
 */
class ReferenceClient {
  readonly manager = new HandshakeManager()
  readonly #engine = new Engine()
  readonly #fusion: Fusion
  readonly #world: World
  readonly #medium
  #count = 0

  constructor(world: World) {
    this.#world = world
    this.#medium = world.medium(world.pair.a)
    this.#fusion = new Fusion(null, {
      registryDir: null,
      localId: 9,
      keys: {
        outbound: aid => (this.manager.shouldEncryptOutbound(aid) ? this.manager.getSessionKey(aid) : null),
        inbound: () => null,
      },
    })
  }

  async open(): Promise<void> {
    const take: PacketHandler = packet => void this.manager.classifyAndDispatch(packet, 'server')
    this.#medium.onPacket(take)
    await this.#medium.open({ lost: () => undefined, degraded: () => undefined })
  }

  /** transmit, as the reference does it */
  async send(ms = 100): Promise<void> {
    const t_raw = this.#world.clock.wall()
    const fact = { id: 'REF', s: 'ONLINE', t: t_raw, s1_id: 'T1', s1_s: 'OK', s1_u: 'K', s1_v: 270 + this.#count++ }
    const text = `9;${this.#engine.compress(fact)}`
    const full = this.manager.getStrategy(9, this.#count > 1) === 'FULL_PACKET'
    const packet = this.#fusion.runEngine(text, full ? 'FULL' : 'DIFF')
    if (packet[0] === 0x3f) this.manager.noteLocalPlaintextSent(9, t_raw)
    await this.#medium.send(packet)
    this.manager.commitSuccess(9)
    await this.#world.run(ms)
  }
}

async function heard(t: TestContext, options: WorldOptions = {}): Promise<{ w: World; client: ReferenceClient }> {
  const w = new World(options)
  t.after(() => w.end())
  await w.startServer()
  const client = new ReferenceClient(w)
  await client.open()
  return { w, client }
}

const got = (w: World): (number | null)[] => w.got.facts.map(fact => fact.sensors[0]!.value)

test('reference client: a session, every fact kept', async t => {
  const { w, client } = await heard(t)
  for (let k = 0; k < 6; k++) await client.send()
  assert.deepEqual(w.commands.slice(0, 4), ['a:3F', 'b:0D', 'a:AB', 'b:0E'])
  assert.deepEqual(got(w), [270, 271, 272, 273, 274, 275])
  assert.equal(w.server.sessions.session(9)?.state, 'SECURE')
  assert.equal(client.manager.sessions.session(9)?.state, 'SECURE')
})

test('reference client, our answer lost twice: the key is named again, and the client takes the first one, which we kept', async t => {
  let lost = 0
  const { w, client } = await heard(t, { lose: p => p[0] === 0x0d && lost++ < 2 })
  for (let k = 0; k < 30; k++) await client.send(1000)
  assert.equal(w.commands.filter(c => c === 'b:0D').length, 3)
  assert.equal(w.server.sessions.session(9)?.state, 'SECURE')
  assert.equal(got(w).length, 30)
})

test('reference client, its first packet lost: it uses a key we cannot know; its packets are refused and counted, and no wrong fact is kept', async t => {
  let lost = 0
  const { w, client } = await heard(t, { lose: (_, from) => from === 'a' && lost++ === 0 })
  for (let k = 0; k < 8; k++) await client.send(1000)
  assert.deepEqual(got(w), [271])
  assert.equal(w.receive.report()['bad_key'], 6)
  assert.equal(w.receive.report()['sessions'], 1)
})

test('reference client with require_secure here: refused until it encrypts', async t => {
  const { w, client } = await heard(t, { requireSecure: { server: true } })
  for (let k = 0; k < 4; k++) await client.send()
  assert.equal(w.receive.report()['refused_plaintext'], 1)
  // its first FULL was refused, so its DIFFs have no template here, and it never sends FULL again
  assert.equal(w.commands.filter(c => c === 'b:06').length, 3)
  assert.deepEqual(got(w), [])
})

test('a packet without a time is answered with the time and makes no key', async t => {
  const { w } = await heard(t)
  const replies: Buffer[] = []
  const origin = { medium: 'UDP', address: 'a:1', reply: async (p: Uint8Array) => replies.push(Buffer.from(p)) > 0 }
  const fusion = new Fusion(null, { registryDir: null, localId: 9 })
  const text = new Engine().compress({ id: 'REF', s: 'ONLINE', t: 0, s1_id: 'T1', s1_s: 'OK', s1_u: 'K', s1_v: 1 })
  w.receive.packet(fusion.runEngine(`9;${text}`, 'FULL'), origin)
  assert.equal(replies[0]?.toString('hex'), '0c00000000000065ec8780')
  assert.equal(replies.length, 1)
  assert.equal(w.server.sessions.size, 0)
  assert.equal(w.got.facts.length, 1)
})

test('an upstream that names no key does not slow the uplink, except for an occasional round in which it may answer', async t => {
  for (const delivery of ['auto', 'best_effort'] as const) {
    let mute = true
    const w = new World({ delivery, lose: p => p[0] === 0x0d && mute })
    t.after(() => w.end())
    await w.start()
    const burst = async (): Promise<number> => {
      const before = w.data.length
      for (let k = 0; k < 100; k++) {
        w.clock.wallMs++
        w.fact()
      }
      await w.run(20)
      return w.data.length - before
    }
    assert.ok((await burst()) <= 24, 'the first ones wait for the answer')
    await w.run(12_000)
    assert.ok((await burst()) > 80, 'no key is named')
    await w.run(60_000)
    assert.ok((await burst()) <= 24, 'a new round')
    await w.run(12_000)
    assert.ok((await burst()) > 80)
    await w.run(60_000)
    assert.ok((await burst()) > 80, 'the rests become longer')
    mute = false
    await w.run(60_000)
    for (let k = 0; k < 12 && w.uplink.status().secure !== 'secure'; k++) {
      await burst()
      await w.run(1000)
    }
    assert.equal(w.uplink.status().secure, 'secure')
    assert.deepEqual([...new Set(got(w))], sent(w), 'each once and in order')
  }
})
