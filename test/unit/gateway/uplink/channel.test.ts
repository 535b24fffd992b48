// How an uplink treats a peer that knows the exchange, one that answers a bare PONG, one that answers nothing, and one that is
// not probed (X29); and how much it has in flight over which medium.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Channel } from '../../../../src/gateway/uplink/channel'
import type { Item } from '../../../../src/gateway/uplink/lane'
import { Uplink, type UplinkSettings } from '../../../../src/gateway/uplink/uplink'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../../src/links/contracts'
import { MEDIA } from '../../../../src/links/registry'
import { FlashLog } from '../../../../src/log'
import type { EncodedFrame } from '../../../../src/pipeline/sender'
import { buildPong, controlSeq } from '../../../../src/protocol/control'
import { DeliveryReceiver, isProbe } from '../../../../src/protocol/delivery'
import { parseFrame } from '../../../../src/protocol/delivery/frame'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { isData } from '../../../../src/wire/commands'
import { until } from '../../../lib/gateway'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const units = { ...wireUnits(), resolve }

/** A far end that answers probes as configured, and a delivery frame never. */
class FarEnd implements Medium {
  readonly name = 'up'
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly maxPacket = 200
  probes = 0
  bare = 0
  /** highest number in a delivery frame */
  highest = 0
  largest = 0
  #handler: PacketHandler = () => undefined
  constructor(
    readonly medium: string,
    readonly answers: 'exchange' | 'pong' | 'nothing',
  ) {}
  open = async (): Promise<void> => undefined
  close = async (): Promise<void> => undefined
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }
  async send(bytes: Uint8Array): Promise<boolean> {
    this.largest = Math.max(this.largest, bytes.length)
    const frame = parseFrame(bytes)
    if (frame) this.highest = Math.max(this.highest, frame.firstSeq + frame.n - 1)
    else if (isData(bytes[0]!)) this.bare++
    if (!isProbe(bytes)) return true
    this.probes++
    const pong = this.answers === 'pong' ? buildPong(controlSeq(bytes)) : new DeliveryReceiver().probeReply(bytes)!
    if (this.answers !== 'nothing')
      this.#handler(pong, { medium: this.medium, address: 'far', reply: async () => true })
    return true
  }
}

/** An uplink over `far` with 20 committed facts in its log. */
async function uplinkTo(t: TestContext, far: FarEnd, delivery: UplinkSettings['delivery'] = 'auto'): Promise<Uplink> {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-exchange-'))
  const log = await FlashLog.open({ dir, commitIntervalMs: 5 })
  let seq = 0
  // with a key, because only a few plaintext packets are sent before a key is named
  const secure = new SecureClient()
  secure.sessions.keyOn(7, 1e12)
  const uplink = new Uplink(
    { name: 'up', diffBase: 'sticky', frames: 'full', fullEvery: 100, fullIntervalS: 60, precision: 4, delivery },
    {
      log,
      medium: far,
      clock: systemClock,
      logger: silentLogger,
      identity: { assigned: true, assignedId: 7 } as never,
      units,
      nextSeq: () => ++seq,
      randomEpoch: () => 99,
      lost: reason => assert.fail(reason),
      onControl: () => false,
      onReady: () => undefined,
      holdMs: () => 0,
      secure,
    },
  )
  t.after(async () => {
    uplink.stop()
    await log.close()
    rmSync(dir, { recursive: true, force: true })
  })
  for (let k = 1; k <= 20; k++)
    log.appendFact(
      { id: 'GW', state: 'ONLINE', tRaw: 1e12 + k, aid: 7, sensors: [{ id: 'T', status: 'OK', unit: 'K', value: k }] },
      { medium: 'local' },
    )
  await log.flush()
  log.onCommit(() => uplink.pump())
  return uplink
}

test('8 packets are in flight on LoRa, RS485 and Bluetooth, 1024 elsewhere; no frame exceeds the limit of the medium', async t => {
  assert.deepEqual(
    MEDIA.filter(info => info.in_flight !== 1024).map(info => [info.name, info.in_flight]),
    [
      ['RS485', 8],
      ['LoRa', 8],
      ['Bluetooth', 8],
    ],
  )
  for (const [medium, window] of [
    ['LoRa', 8],
    ['UDP', 20],
  ] as const) {
    const far = new FarEnd(medium, 'exchange')
    const uplink = await uplinkTo(t, far)
    await uplink.probe()
    uplink.link({ state: 'up', since: 0 })
    await until(`${window} packets`, () => far.highest >= window)
    await new Promise(done => setTimeout(done, 50))
    assert.equal(far.highest, window, medium)
    const { in_flight, cursor, delivery } = uplink.status()
    assert.deepEqual({ in_flight, cursor, delivery }, { in_flight: window, cursor: 0, delivery: 'acked' })
    assert.equal(uplink.maxPacket, 200 - 18)
    assert.ok(far.largest <= 200)
    assert.equal(far.bare, 0, 'data travels in delivery frames only')
  }
})

test('after a bare PONG data is sent bare and the status says so; the next opening probes again', async t => {
  const far = new FarEnd('UDP', 'pong')
  const uplink = await uplinkTo(t, far)
  await uplink.probe()
  uplink.link({ state: 'up', since: 0 })
  await until('all packets', () => far.bare === 20)
  await until('the cursor', () => uplink.status().backlog === 0)
  assert.equal(uplink.status().delivery, 'best_effort')
  assert.equal(far.highest, 0)
  uplink.link({ state: 'down', since: 0, reason: 'unplugged' })
  await uplink.probe()
  assert.equal(far.probes, 2)
})

test('a peer that answers nothing is LINK_DOWN, nothing is sent, and the cursor stays', async t => {
  const far = new FarEnd('UDP', 'nothing')
  const uplink = await uplinkTo(t, far)
  await assert.rejects(uplink.probe(), { code: 'LINK_DOWN' })
  uplink.link({ state: 'down', since: 0, reason: 'the upstream does not answer' })
  uplink.pump()
  const { cursor, backlog } = uplink.status()
  assert.deepEqual({ cursor, backlog }, { cursor: 0, backlog: 20 })
  assert.deepEqual([far.probes, far.bare, far.highest], [1, 0, 0])
})

test('a peer configured best_effort is not probed, and its packets count as sent', async t => {
  const far = new FarEnd('UDP', 'exchange')
  const uplink = await uplinkTo(t, far, 'best_effort')
  uplink.link({ state: 'up', since: 0 })
  await until('all packets', () => far.bare === 20)
  assert.deepEqual([far.probes, far.highest], [0, 0])
  assert.equal(uplink.maxPacket, 200)
  await until('all are counted', () => uplink.status().sent === 20)
  assert.equal(uplink.status().acked, 0)
})

test('a packet whose place in the window a key request took is sent when there is room', async () => {
  const clock = new ManualClock()
  const receiver = new DeliveryReceiver()
  let receive: PacketHandler = () => undefined
  const got: number[] = []
  const far = Object.assign(new FarEnd('LoRa', 'exchange'), {
    onPacket: (handler: PacketHandler) => void (receive = handler),
    send: async (bytes: Uint8Array) => {
      if (isProbe(bytes)) setImmediate(() => answer(receiver.probeReply(bytes)!))
      let answered: Uint8Array | null = null
      receiver.onFrame(bytes, 'far', (packet, sent, peer) => {
        got.push(packet[0]!)
        answered = receiver.committed(peer, [sent])
      })
      if (answered) answer(answered)
      return true
    },
  })
  const answer = (bytes: Uint8Array): void =>
    receive(bytes, { medium: 'LoRa', address: 'far', reply: async () => true } as never)
  let seq = 0
  const channel = new Channel(
    { delivery: 'auto' },
    {
      ...{ medium: far as Medium, clock, timers: new ManualTimers(clock), logger: silentLogger },
      ...{
        client: new SecureClient({ clock }),
        encoders: { opened: () => undefined, finish: () => undefined } as never,
      },
      ...{ nextSeq: () => ++seq, randomEpoch: () => 99, now: () => 0, degraded: () => undefined },
      ...{ lost: reason => assert.fail(reason), onControl: () => false },
    },
    {
      delivered: () => undefined,
      taken: () => undefined,
      changed: () => undefined,
      answered: () => undefined,
    } as never,
  )
  await channel.probe()
  channel.opened()
  const take = (n: number): void =>
    channel.take({ bytes: Buffer.of(n, 2, 3), size: 3, maxSize: 3 } as EncodedFrame, { seq: n } as Item)
  for (let n = 1; n <= 8; n++) take(n)
  assert.equal(channel.room, false)
  // packed while a key request took the last place
  take(9)
  await channel.send(clock.mono())
  channel.finish()
  await channel.send(clock.mono())
  assert.deepEqual(got, [1, 2, 3, 4, 5, 6, 7, 8, 9])
})

test('a handover waits until nothing is in flight, at most until its limit, and leaves no timer', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  let taken: (good: boolean) => void = () => undefined
  const far = Object.assign(new FarEnd('UDP', 'nothing'), { send: () => new Promise(done => (taken = done)) })
  const delivered: number[] = []
  const channel = new Channel(
    { delivery: 'best_effort' },
    {
      ...{ medium: far as Medium, clock, timers, logger: silentLogger, client: new SecureClient({ clock }) },
      ...{ encoders: { opened: () => undefined } as never, nextSeq: () => 1, randomEpoch: () => 99, now: () => 0 },
      ...{ degraded: () => undefined, lost: reason => assert.fail(reason), onControl: () => false },
    },
    { delivered: ({ seq }: Item) => delivered.push(seq) } as never,
  )
  channel.opened()
  await channel.drained(100)
  assert.equal(timers.pending, 0)
  const send = (seq: number): Promise<unknown> => {
    channel.take({ bytes: Buffer.of(1, 2), size: 2, maxSize: 2 } as EncodedFrame, { seq } as Item)
    return channel.send(clock.mono())
  }
  const first = send(1)
  assert.deepEqual([channel.inFlight, channel.room], [1, false])
  let done = 0
  void channel.drained(100).then(() => done++)
  await timers.advance(99)
  assert.equal(done, 0)
  await timers.advance(1)
  assert.equal(done, 1)
  void channel.drained(100).then(() => done++)
  taken(true)
  await first
  await timers.advance(0)
  assert.deepEqual([done, delivered, timers.pending], [2, [1], 0])
  void send(2)
  void channel.drained(100).then(() => done++)
  channel.closed()
  await timers.advance(0)
  assert.deepEqual([done, channel.inFlight, timers.pending], [3, 0, 0])
})
