// Secure sessions of real processes over UDP, with a tap between them: the packets, losses, and lost state of either side.
// In the end both sides have the same facts, and no reading was sent in plaintext once there was a key. The scenarios run
// in parallel, because they mostly wait; status is queried over the control socket, as the CLI does.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { isData, isSecure } from '../../src/wire/commands'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'
import { assertSame } from '../lib/same'
import { Tap } from '../lib/tap'

interface Settings {
  requireSecure?: { gateway?: boolean; upstream?: boolean }
  delivery?: 'best_effort'
  /** seconds that readings wait for a time that no source provides (decision 0044) */
  holdUnsyncedS?: number
}

class Both {
  readonly dir = tempDir()
  up!: Machine
  gw!: Machine
  tap!: Tap
  #upArgs: [string[], number] = [[], 0]
  #gwArgs: [string[], number] = [[], 0]
  #settings: Settings = {}
  /** where the gateway sends to */
  road = 0

  static async start(t: TestContext, settings: Settings = {}): Promise<Both> {
    const both = new Both()
    both.#settings = settings
    t.after(async () => {
      await both.gw?.stop('SIGKILL')
      await both.up?.stop('SIGKILL')
      both.tap?.close()
      removeDir(both.dir)
    })
    const [packets, road, upWeb, gwWeb] = await Promise.all([freeUdpPort(), freeUdpPort(), freePort(), freePort()])
    both.road = road
    both.#upArgs = [['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)], upWeb]
    both.#gwArgs = [['--port', String(gwWeb)], gwWeb]
    const security = (on = false): object => ({ security_settings: { require_secure: on } })
    both.up = new Machine(join(both.dir, 'up'), 'serve', {
      ...security(settings.requireSecure?.upstream),
      gateway: { log: { commit_interval_ms: 100 } },
    })
    both.gw = new Machine(join(both.dir, 'gw'), 'run', {})
    both.configure(['memory', 'uptime'])
    both.tap = await Tap.open(road, packets)
    return both
  }

  /** The gateway's sources; applied at its next start. */
  configure(types: string[]): void {
    const { requireSecure, delivery, holdUnsyncedS } = this.#settings
    this.gw.configure({
      device_id: 'GW1',
      assigned_id: 5,
      security_settings: { require_secure: requireSecure?.gateway ?? false },
      gateway: {
        sources: types.map(type => ({ name: type, type, interval_ms: 150 })),
        uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: this.road, ...(delivery && { delivery }) }],
        log: { commit_interval_ms: 100 },
        ...(holdUnsyncedS !== undefined && { time: { hold_unsynced_s: holdUnsyncedS } }),
      },
    })
  }

  startUp = (): Promise<void> => this.up.start(...this.#upArgs)
  startGw = (): Promise<void> => this.gw.start(...this.#gwArgs)

  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
  uplink = async (): Promise<any> => (await askControl(this.gw.dataDir, 'status')).uplinks.up
  received = async (): Promise<Record<string, number>> => (await askControl(this.up.dataDir, 'status')).received

  get upStore(): string {
    return join(this.up.dataDir, 'secure_sessions.json')
  }
  get gwStore(): string {
    return join(this.gw.dataDir, 'secure_sessions.up.json')
  }

  /** Secure, and `more` packets acknowledged since. */
  async secure(more = 10): Promise<void> {
    await until('a secure session', async () => (await this.uplink()).secure === 'secure')
    const there = async (): Promise<number> => this.uplink().then(({ acked, sent }) => acked + sent)
    const from = await there()
    await until('packets are acknowledged, or sent best effort', async () => (await there()) >= from + more)
  }

  /** Both session files contain the key; they are written at most every five seconds. */
  async kept(): Promise<void> {
    for (const path of [this.gwStore, this.upStore])
      await until(`a key in ${path}`, () => JSON.parse(readFileSync(path, 'utf8')).sessions['5']?.key_hex)
  }

  /** Command bytes of the gateway's data frames, in the order they were sent. */
  data(): number[] {
    return this.tap
      .packets('up')
      .map(({ packet }) => packet[0]!)
      .filter(isData)
  }

  assertNoFallback(): void {
    const data = this.data()
    const first = data.findIndex(isSecure)
    assert.ok(first >= 0, 'something went encrypted')
    assert.ok(data.slice(first).every(isSecure), data.map(cmd => cmd.toString(16)).join(' '))
  }

  /** Stops both; their logs are equal. */
  async assertSame(): Promise<void> {
    await this.gw.stop()
    this.configure([])
    await this.startGw()
    await until('everything is delivered', async () => (await this.uplink()).backlog === 0)
    await this.gw.stop()
    await this.up.stop()
    const sent = this.gw.logFacts()
    assert.ok(sent.length > 10)
    assertSame(sent, this.up.logFacts())
  }
}

const inside = (bytes: Uint8Array, test: (cmd: number) => boolean): boolean =>
  test(bytes[0] === 0x10 ? bytes[16]! : bytes[0]!)

/** Only in the body: time and checksums may contain any byte. */
const bodyHas = (packet: Uint8Array, text: string): boolean => Buffer.from(packet).subarray(13, -3).includes(text)

describe('secure sessions between processes', { concurrency: 4 }, () => {
  test('plaintext, the key named, encrypted, confirmed: in this order on the wire, and the same facts on both sides', async t => {
    const both = await Both.start(t)
    await both.startUp()
    await both.startGw()
    await both.secure(30)
    const steps = both.tap
      .packets()
      .map(({ way, packet }) => `${way} ${packet[0]!.toString(16)}`)
      .filter(step => /^up (3f|aa|7f|40|ab|80)$|^down (d|e)$/.test(step))
      .filter((step, k, all) => step !== all[k - 1])
    assert.equal(steps[0], 'up 3f')
    const order = ['up 3f', 'down d', 'up 40', 'down e'].map(step => steps.indexOf(step))
    assert.deepEqual(
      order,
      [...order].sort((a, b) => a - b),
      steps.join(', '),
    )
    assert.ok(!order.includes(-1) && steps.includes('up ab'))
    both.assertNoFallback()
    // once, except for late ones on a slow machine: each plaintext packet is answered like this
    const named = both.tap.packets('down').filter(({ packet }) => packet[0] === 0x0d).length
    assert.ok(named >= 1 && named <= both.data().filter(cmd => !isSecure(cmd)).length)
    assert.deepEqual((await both.uplink()).secure_aids, { pending: 0, secure: 1 })
    assert.equal((await both.received())['sessions'], 1)
    assert.match(both.gw.run('status').stdout, /session\n.*secure/)
    await both.assertSame()
  })

  test('a session is agreed when the first packet, the named key and its confirmation are lost', async t => {
    const both = await Both.start(t)
    const lost = { data: 0, ready: 0, ack: 0 }
    both.tap.lose = (packet, way) =>
      way === 'up'
        ? inside(packet, isData) && lost.data++ === 0
        : (packet[0] === 0x0d && lost.ready++ === 0) || (packet[0] === 0x0e && lost.ack++ === 0)
    await both.startUp()
    await both.startGw()
    await both.secure()
    // late packets on a slow machine are repeated once more
    assert.deepEqual([lost.data > 1, lost.ready > 1, lost.ack], [true, true, 1])
    both.assertNoFallback()
    await both.assertSame()
  })

  test('either side ends by kill or cleanly with its session file kept: no reading is sent in plaintext', async t => {
    const both = await Both.start(t)
    await both.startUp()
    await both.startGw()
    await both.secure()
    await both.kept()
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      await both.up.stop(signal)
      await both.startUp()
      await both.secure()
      await both.gw.stop(signal)
      await both.startGw()
      await both.secure()
    }
    both.assertNoFallback()
    assert.equal((await both.received())['bad_key'], 0)
    await both.assertSame()
  })

  test('either side loses its session file, or finds another key in it: a new session, nothing lost', async t => {
    const both = await Both.start(t)
    await both.startUp()
    await both.startGw()
    await both.secure()

    await both.up.stop('SIGKILL')
    rmSync(both.upStore)
    both.tap.clear()
    await both.startUp()
    await both.secure()
    const seen = both.tap.packets().map(({ packet }) => packet)
    const nack = seen.findIndex(packet => packet[0] === 0x06 && Buffer.from(packet).includes('BAD_KEY;5;'))
    assert.ok(nack > 0 && seen.slice(nack).some(packet => packet[0] === 0x3f), 'refused, then a key frame in plaintext')
    assert.ok((await both.received())['bad_key']! >= 1)

    await both.gw.stop('SIGKILL')
    rmSync(both.gwStore)
    await both.startGw()
    await both.secure()

    await both.up.stop()
    const kept = JSON.parse(readFileSync(both.upStore, 'utf8'))
    kept.sessions['5'].key_hex = '00'.repeat(32)
    writeFileSync(both.upStore, JSON.stringify(kept))
    await both.startUp()
    await until('refused', async () => (await both.received())['bad_key']! >= 1)
    await both.secure()
    await both.assertSame()
  })

  test('require_secure at both ends: a key request first, and no reading in plaintext, also after a lost session file', async t => {
    const both = await Both.start(t, { requireSecure: { gateway: true, upstream: true } })
    await both.startUp()
    await both.startGw()
    await both.secure()
    await both.up.stop('SIGKILL')
    rmSync(both.upStore)
    await both.startUp()
    await both.secure()
    for (const { packet } of both.tap.packets('up')) {
      if (!isData(packet[0]!) || isSecure(packet[0]!)) continue
      assert.equal(packet[0], 0x3f)
      assert.ok(!bodyHas(packet, '>'), 'a key request has no sensor')
    }
    assert.equal((await both.received())['refused_plaintext'], 0)
    assert.ok((await both.received())['openers']! >= 1)
    await both.assertSame()
  })

  test('require_secure at the upstream only: refused and counted until there is a key, then everything arrives', async t => {
    const both = await Both.start(t, { requireSecure: { upstream: true } })
    await both.startUp()
    await both.startGw()
    await both.secure()
    assert.ok((await both.received())['refused_plaintext']! >= 1)
    assert.match(both.up.run('status').stdout, /refused: plaintext packets \d+, wrong keys 0/)
    await both.assertSame()
  })

  test('require_secure and an upstream without sessions: the link says why, and no reading is sent', async t => {
    // this upstream has no time either: readings must not wait for it
    const both = await Both.start(t, { requireSecure: { gateway: true }, holdUnsyncedS: 0 })
    const seen: Buffer[] = []
    const dumb = createSocket('udp4')
    t.after(() => dumb.close())
    dumb.on('message', (message, from) => {
      seen.push(message)
      if (message[0] === 0x09) dumb.send(Buffer.from([0x0a, message[1]!, message[2]!]), from.port, from.address)
    })
    await new Promise<void>(done => dumb.bind(0, '127.0.0.1', done))
    both.road = dumb.address().port
    both.configure(['memory', 'uptime'])
    await both.startGw()
    const reason = await until('it is reported', async () => {
      const { up } = (await askControl(both.gw.dataDir, 'status')).links
      return up.state === 'degraded' && up.reason
    })
    assert.match(reason, /^no secure session: no answer to \d+ key requests of AID 5$/)
    const uplink = await both.uplink()
    assert.equal(uplink.secure, 'pending')
    assert.ok(uplink.backlog > 3)
    assert.equal(uplink.acked, 0)
    const data = seen.filter(packet => isData(packet[0]!))
    assert.ok(data.length >= 2 && data.every(packet => packet[0] === 0x3f && !bodyHas(packet, '>')))
  })
})
