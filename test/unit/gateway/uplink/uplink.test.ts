// An uplink over a real log and a medium whose far end knows the delivery exchange.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Uplink, type UplinkSettings } from '../../../../src/gateway/uplink/uplink'
import { systemClock } from '../../../../src/lib/clock'
import { realFiles } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../../src/links/contracts'
import { FlashLog } from '../../../../src/log'
import type { Fact } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { buildNack } from '../../../../src/protocol/control'
import { DeliveryReceiver } from '../../../../src/protocol/delivery'
import { nackReason } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { COMMAND } from '../../../../src/wire/commands'
import { until } from '../../../lib/gateway'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { openLog } from '../../log/helpers'

const units = { ...wireUnits(), resolve }
const at = (k: number): Fact => ({
  id: 'GW',
  state: 'ONLINE',
  tRaw: 1_710_000_000_000 + k,
  aid: 7,
  sensors: [{ id: 'T1', status: 'OK', unit: 'K', value: 280 + k }],
})

/** A far end that decodes and acknowledges immediately. */
class FarEnd implements Medium {
  readonly name = 'up'
  readonly medium = 'UDP'
  readonly maxPacket = 1400
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly got: number[] = []
  readonly #exchange = new DeliveryReceiver({ ackCommitMs: 1 })
  readonly #receiver = new Receiver({ units })
  #handler: PacketHandler = () => undefined

  open = async (): Promise<void> => undefined
  close = async (): Promise<void> => undefined
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }
  async send(bytes: Uint8Array): Promise<boolean> {
    const copy = bytes.slice()
    setImmediate(() => {
      const probe = this.#exchange.probeReply(copy)
      if (probe) return this.#answer(probe)
      const seqs: number[] = []
      let peer: Parameters<DeliveryReceiver['committed']>[0] | undefined
      const again = this.#exchange.onFrame(copy, 'gw', (packet, seq, from) => {
        const received = this.#receiver.receive(packet)
        assert.equal(received.kind, 'fact')
        if (received.kind === 'fact') this.got.push(received.fact.tRaw - 1_710_000_000_000)
        seqs.push(seq)
        peer = from
      })
      if (again) this.#answer(again)
      else if (peer) this.#answer(this.#exchange.committed(peer, seqs))
    })
    return true
  }
  #answer(bytes: Uint8Array): void {
    this.#handler(bytes, { medium: 'UDP', address: 'server', reply: async () => true })
  }
}

/** An uplink of that log over `far`, up and settled; it is stopped, and the log closed, at the end of the test. */
async function connected(
  t: TestContext,
  {
    dir,
    log,
    far,
    frames,
    diffBase,
    batchWindowMs = 0,
    lost = reason => assert.fail(reason),
  }: { dir: string; log: FlashLog; far: FarEnd; lost?: (reason: string) => void } & Pick<
    UplinkSettings,
    'frames' | 'diffBase' | 'batchWindowMs'
  >,
): Promise<Uplink> {
  const uplink = new Uplink(
    { name: 'up', diffBase, frames, batchWindowMs, fullEvery: 100, fullIntervalS: 60, precision: 4, delivery: 'auto' },
    {
      log,
      medium: far,
      clock: systemClock,
      logger: silentLogger,
      identity: { assigned: true, assignedId: 7 } as never,
      units,
      nextSeq: () => 1,
      randomEpoch: () => 99,
      lost,
      onControl: () => false,
      onReady: () => undefined,
      holdMs: () => 0,
    },
  )
  t.after(async () => {
    uplink.stop()
    await log.close()
    rmSync(dir, { recursive: true, force: true })
  })
  log.onCommit(() => uplink.pump())
  await uplink.probe()
  uplink.link({ state: 'up', since: 0 })
  return uplink
}

test('committed records are sent upstream; while the disk refuses writes live data still flows; later all is in order', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-uplink-'))
  let full = false
  const refuse = (): void => {
    if (full) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  }
  const log = await FlashLog.open({
    dir,
    commitIntervalMs: 10,
    files: {
      ...realFiles,
      write: (...args) => {
        refuse()
        realFiles.write(...args)
      },
    },
  })
  const far = new FarEnd()
  const uplink = await connected(t, { dir, log, far, frames: 'auto', diffBase: 'sticky' })

  for (let k = 1; k <= 3; k++) log.appendFact(at(k), { medium: 'local' })
  await until('three facts', () => far.got.length === 3)
  await until('the cursor', () => uplink.status().cursor >= 3)

  full = true
  for (let k = 4; k <= 6; k++) log.appendFact(at(k), { medium: 'local' })
  await until('the log tells', () => log.degraded)
  const committed = log.committedSeq
  uplink.pump()
  await until('three more facts, though none is on flash', () => far.got.length === 6)
  assert.equal(log.committedSeq, committed)

  full = false
  log.appendFact(at(7), { medium: 'local' })
  await log.flush()
  await until('the log has recovered', () => !log.degraded)
  uplink.pump()
  await until('the last fact', () => far.got.length === 7)
  assert.deepEqual(far.got, [1, 2, 3, 4, 5, 6, 7])
  assert.equal(uplink.status().refused, 0)
})

test('a fact that can never be sent is skipped and counted; those after it are sent', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-uplink-'))
  const log = await FlashLog.open({ dir, commitIntervalMs: 5 })
  const far = new FarEnd()
  const uplink = await connected(t, { dir, log, far, frames: 'full', diffBase: 'last' })
  const wide: Fact = {
    ...at(1),
    sensors: Array.from({ length: 90 }, (_, k) => ({ id: `sensor_number_${k}`, status: 'OK', unit: 'K', value: k })),
  }
  log.appendFact(wide, { medium: 'local' })
  log.appendFact(at(2), { medium: 'local' })
  await until('the next one', () => far.got.length === 1)
  assert.deepEqual(far.got, [2])
  assert.equal(uplink.status().refused, 1)
  await until('the cursor passes both', () => uplink.status().backlog === 0)
})

for (const acknowledges of [false, true])
  test(`with diff_base last no packet depends on one the medium refused, ${acknowledges ? 'on a medium that acknowledges' : 'in the exchange'}`, async t => {
    for (const diffBase of acknowledges ? (['last'] as const) : (['last', 'sticky'] as const)) {
      const dir = mkdtempSync(join(tmpdir(), 'os-node-uplink-'))
      const log = await FlashLog.open({ dir, commitIntervalMs: 5 })
      const far = new FarEnd()
      const send = far.send
      let refuse = false
      const reasons: string[] = []
      Object.assign(far, {
        acknowledges,
        send: async (bytes: Uint8Array): Promise<boolean> => {
          if (!refuse) return acknowledges || send.call(far, bytes)
          refuse = false
          return false
        },
      })
      const uplink = await connected(t, { dir, log, far, frames: 'auto', diffBase, lost: r => void reasons.push(r) })
      for (let k = 1; k <= 3; k++) {
        refuse = k === 2
        log.appendFact(at(k), { medium: 'local' })
        uplink.pump()
        await until(`fact ${k}`, () => !refuse && (k === 2 || uplink.status().backlog === 0))
      }
      const reason = `the medium refused a ${acknowledges ? 'packet' : 'frame'}`
      assert.deepEqual(reasons, diffBase === 'last' ? [reason] : [])
    }
  })

for (const batchWindowMs of [0, 20])
  test(`without the exchange a record is sent again when the upstream lacks its template, with a batch window of ${batchWindowMs} ms too, although no other record comes`, async t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-uplink-'))
    const log = await FlashLog.open({ dir, commitIntervalMs: 5 })
    const far = new FarEnd()
    const frames: Uint8Array[] = []
    let answer: PacketHandler
    Object.assign(far, {
      onPacket: (handler: PacketHandler) => {
        answer = handler
      },
      send: async (bytes: Uint8Array): Promise<boolean> => {
        const packet = bytes.slice()
        const isProbe = packet[0] === COMMAND.PING
        if (!isProbe) frames.push(packet)
        const reply = isProbe
          ? Uint8Array.of(COMMAND.PONG, packet[1]!, packet[2]!)
          : frames.length === 1 && buildNack(0, nackReason('NEED_FULL', packet)!)
        if (reply) setImmediate(() => answer(reply, { medium: 'UDP', address: 'server', reply: async () => true }))
        return true
      },
    })
    await connected(t, { dir, log, far, frames: 'auto', diffBase: 'sticky', batchWindowMs })
    log.appendFact(at(1), { medium: 'local' })
    await until('the frame is resent', () => frames.length === 2)
    const timeOf = (frame: Uint8Array): string => Buffer.from(frame.subarray(7, 13)).toString('hex')
    assert.equal(timeOf(frames[1]!), timeOf(frames[0]!))
  })

test('a record is sent as soon as it is appended; the stored cursor waits for the commit', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-uplink-'))
  const log = await FlashLog.open({ dir, commitIntervalMs: 600_000 })
  const far = new FarEnd()
  const uplink = await connected(t, { dir, log, far, frames: 'auto', diffBase: 'sticky' })
  log.appendFact(at(1), { medium: 'local' })
  uplink.pump()
  await until('the first fact, whose TID had to be kept', () => far.got.length === 1)
  await log.flush()
  const committed = log.committedSeq
  const seq = log.appendFact(at(2), { medium: 'local' })
  uplink.pump()
  await until('a fact that is not committed', () => far.got.length === 2)
  await until('its answer', () => uplink.status().backlog === 0)
  assert.equal(log.committedSeq, committed)
  assert.ok(uplink.status().cursor < seq)
  uplink.stop()
  assert.ok(log.cursor('uplink:up')! < seq, 'what a power cut may take is not passed')
  await log.flush()
  assert.ok(uplink.status().cursor >= seq)
})

test('no deadline in the past is armed twice: an idle uplink wakes every five seconds', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const { log } = await openLog({ clock })
  let key: Uint8Array | null = null
  class Client extends SecureClient {
    override outboundKey = (): Buffer | null => key as Buffer | null
  }
  const far = new FarEnd()
  const broker: Medium = Object.assign(Object.create(far) as FarEnd, {
    acknowledges: true,
    onPacket: () => undefined,
    send: async () => true,
  })
  const uplink = new Uplink(
    { name: 'up', frames: 'auto', fullEvery: 100, fullIntervalS: 60, precision: 4, delivery: 'auto' },
    {
      ...{ log, medium: broker, clock, timers, logger: silentLogger, units, secure: new Client({ clock }) },
      identity: { assigned: true, assignedId: 7 } as never,
      nextSeq: () => 1,
      randomEpoch: () => 99,
      lost: reason => assert.fail(reason),
      onControl: () => false,
      onReady: () => undefined,
      holdMs: () => 0,
    },
  )
  log.onCommit(() => uplink.pump())
  uplink.link({ state: 'up', since: 0 })
  for (let k = 0; k < 12; k++) log.appendFact(at(k), { medium: 'local' })
  await log.flush()
  await timers.advance(100)
  await log.flush()
  await timers.advance(100)
  assert.ok(uplink.status().backlog > 0, 'the ninth in plaintext waits for a key')
  key = Buffer.alloc(32, 1)
  uplink.pump()
  await timers.advance(2000)
  assert.equal(uplink.status().backlog, 0)
  const armed = timers.armed
  await timers.advance(60_000)
  assert.ok(timers.armed - armed <= 13, `${timers.armed - armed} timers in a minute`)
  uplink.stop()
})
