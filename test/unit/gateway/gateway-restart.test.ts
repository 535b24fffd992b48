// What a gateway still knows after a restart: the last time of each device, the packets it has received, and which
// templates are too old to use.
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { Gateway } from '../../../src/gateway/gateway'
import { statusLine } from '../../../src/gateway/guard/status-line'
import { silentLogger } from '../../../src/lib/logger'
import { Registry } from '../../../src/links/registry'
import type { Fact } from '../../../src/pipeline/fact'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { addToFrame, finishFrame, startFrame } from '../../../src/protocol/delivery/frame'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { ByteWriter } from '../../../src/wire/cursor'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../../src/wire/frame'
import { ManualClock } from '../../lib/manual'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000

const fact = (k: number, value: number): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw: T0 + k,
  aid: 9,
  sensors: [{ id: 'a', status: 'OK', unit: 'K', value }],
})
const delivery = (seq: number, packet: Uint8Array): Uint8Array => {
  const writer = new ByteWriter(new Uint8Array(400))
  startFrame(writer, 5, 1, seq)
  addToFrame(writer, packet)
  return finishFrame(writer, 1).slice()
}
/** A packet without a time, of AID 8. */
function timeless(): Buffer {
  const body = Buffer.from('8;T.1.AAAAAAAA|a>K.K:1|')
  const out = Buffer.alloc(FRAME_OVERHEAD + body.length)
  const start = writeHeader(out, 0, 0x3f, 8, 1, 0)
  out.set(body, start)
  sealFrame(out, 0, start, start + body.length)
  return out
}

/** Starts the same gateway repeatedly: its clock is set to `wall` each time. */
function machine(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-restart-'))
  const started: Gateway[] = []
  // also after a failed assertion: a running gateway keeps the process alive
  t.after(async () => {
    for (const gateway of started) await gateway.stop()
    rmSync(dir, { recursive: true, force: true })
  })
  writeFileSync(
    join(dir, 'Config.json'),
    JSON.stringify({ device_id: 'GW', assigned_id: 5, storage: { sql: { enabled: false } } }),
  )
  return async (
    wall: number,
  ): Promise<{
    gateway: Gateway
    clock: ManualClock
    replies: Buffer[]
    hear(p: Uint8Array, settle?: (taken: boolean) => void): void
    facts(): Fact[]
  }> => {
    const clock = new ManualClock(wall)
    const gateway = await Gateway.open({
      config: ConfigStore.load({ path: join(dir, 'Config.json'), env: {}, cwd: dir }),
      registry: new Registry({}),
      units,
      script: '',
      version: '0',
      builtAt: 0,
      logger: silentLogger,
      defaultSources: [],
      role: 'serve',
      clock,
    })
    started.push(gateway)
    await gateway.start()
    const replies: Buffer[] = []
    const origin = {
      medium: 'UDP',
      address: 'a:1',
      reply: async (bytes: Uint8Array) => replies.push(Buffer.from(bytes)) > 0,
    }
    const facts = (): Fact[] => {
      const reader = gateway.log.reader(1, { kinds: ['fact'], committedOnly: false })
      const list: Fact[] = []
      for (let record = reader.next(); record; record = reader.next()) list.push(record.fact!)
      return list
    }
    return {
      gateway,
      clock,
      replies,
      hear: (packet, settle) => gateway.receive.packet(packet, { ...origin, settle }),
      facts,
    }
  }
}

test('times strictly increase over a restart with the clock set back, for own devices and for packets without a time', async t => {
  const start = machine(t)
  for (const wall of [T0, T0 - 3_600_000, T0 + 5]) {
    const { gateway, hear, clock } = await start(wall)
    for (let k = 0; k < 3; k++) {
      gateway.submit([['T1', 'OK', 20, 'Cel']])
      hear(timeless())
    }
    clock.wallMs -= 1000
    gateway.submit([['T1', 'OK', 20, 'Cel']])
    hear(timeless())
    await gateway.stop()
  }
  const { gateway, facts } = await start(T0)
  for (const id of ['GW', 'T']) {
    const times = facts()
      .filter(one => one.id === id)
      .map(({ tRaw }) => tRaw)
    assert.equal(times.length, 12)
    assert.ok(
      times.every((time, k) => k === 0 || time > times[k - 1]!),
      times.join(),
    )
  }
  await gateway.stop()
})

test('a server has no upstream: its status shows none, and nothing that waits for one', async t => {
  const { gateway, hear, facts } = await machine(t)(T0)
  hear(timeless())
  assert.equal(facts().length, 1)
  assert.equal('forwarding' in gateway.status(), false)
  assert.doesNotMatch(statusLine(gateway.status()), /wait/)
  assert.deepEqual(gateway.status().dropped, { rows: 0, packets: 0, records: 0 })
  const OFF = { state: 'disabled' } as const
  gateway.events.links.subscribe(() => undefined, 1)
  for (let k = 0; k < 3; k++) gateway.events.links.emit({ name: 'x', state: OFF, before: OFF })
  assert.equal(gateway.status().dropped.events, 2, 'a listener that is too slow')
  await gateway.stop()
})

test('the newest values of other devices, and their alarms, are shown after a restart', async t => {
  const start = machine(t)
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const alarm: Fact = { ...fact(1, 361.5), sensors: [{ id: 'a', status: 'ALARM', unit: 'K', value: 361.5 }] }
  const before = await start(T0)
  before.hear(delivery(1, sender.encode(alarm).bytes))
  const shown = before.gateway.latestReadings()
  assert.equal(shown[0]!.sensors[0]!.status, 'ALARM')
  await before.gateway.stop()
  const { gateway } = await start(T0 + 1000)
  assert.deepEqual(gateway.latestReadings(), shown)
  assert.equal(gateway.status().attention?.length, 1)
})

test('after a clean stop the templates of a run are restored', async t => {
  const start = machine(t)
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const packets = [1, 2, 3].map(k => sender.encode(fact(k, k)).bytes)
  const before = await start(T0)
  for (const [k, packet] of packets.entries()) before.hear(delivery(k + 1, packet))
  await before.gateway.stop()
  const { gateway, hear, facts } = await start(T0 + 1000)
  hear(delivery(2, packets[1]!))
  assert.equal(gateway.receive.counters.duplicates, 1)
  hear(delivery(4, sender.encode(fact(4, 4)).bytes))
  assert.deepEqual(
    facts().map(one => one.sensors[0]!.value),
    [1, 2, 3, 4],
  )
  assert.equal(gateway.receive.counters.refused, 0)
  await gateway.stop()
})

test('packets in the log are recognized as duplicates again, and without its templates a run gets one request for them', async t => {
  const start = machine(t)
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const packets = [1, 2, 3].map(k => sender.encode(fact(k, k)).bytes)
  const before = await start(T0)
  for (const [k, packet] of packets.entries()) before.hear(delivery(k + 1, packet))
  await before.gateway.stop()
  rmSync(join(before.gateway.config.dataDir, 'device_registry/spill'), { recursive: true })

  const { gateway, hear, replies, facts } = await start(T0 + 1000)
  hear(delivery(2, packets[1]!))
  assert.match(replies.at(-1)!.subarray(3).toString(), /^NEED_FULL;9;1;/)
  hear(delivery(1, packets[0]!))
  assert.equal(gateway.receive.counters.duplicates, 1, 'the FULL is known')
  hear(delivery(4, sender.encode(fact(4, 4)).bytes))
  assert.equal(gateway.receive.counters.refused, 2, 'and too old to build on: what came after it was acknowledged')
  sender.keyFrameNext()
  hear(delivery(4, sender.encode(fact(5, 5)).bytes))
  hear(delivery(5, sender.encode(fact(6, 6)).bytes))
  assert.deepEqual(
    facts().map(one => one.sensors[0]!.value),
    [1, 2, 3, 5, 6],
  )
  assert.equal(gateway.receive.counters.refused, 2)
  await gateway.stop()
})

test('after a kill a DIFF through a broker is decoded, though the FULL before it only repeated known data', async t => {
  const start = machine(t)
  const both = (k: number, a: number): Fact => {
    const { sensors, ...rest } = fact(k, a)
    return { ...rest, sensors: [...sensors, { id: 'b', status: 'OK', unit: 'K', value: 7 }] }
  }
  const settled: boolean[] = []
  const broker = (taken: boolean): void => void settled.push(taken)
  const before = await start(T0)
  const first = new UplinkEncoder({ aid: 9, units })
  for (const k of [1, 2, 3, 4]) before.hear(first.encode(both(k, k)).bytes, broker)
  // the sender restarts, and sends as a FULL what the broker had already; its next DIFF waits in the broker
  const again = new UplinkEncoder({ aid: 9, units, firstTid: 2 })
  for (const k of [4, 4, 4]) before.hear(again.encode(both(k, k)).bytes, broker)
  const waits = again.encode(both(5, 5)).bytes
  assert.deepEqual([before.gateway.receive.counters.duplicates, waits[0]], [3, 0xaa])
  await before.gateway.log.flush()
  const { dataDir } = before.gateway.config
  cpSync(dataDir, `${dataDir}.killed`, { recursive: true })
  await before.gateway.stop()
  rmSync(dataDir, { recursive: true })
  renameSync(`${dataDir}.killed`, dataDir)

  const { gateway, hear, facts } = await start(T0 + 1000)
  assert.equal(gateway.log.cleanStop, false)
  hear(waits, broker)
  assert.deepEqual(facts().at(-1), both(5, 5))
  await gateway.stop()
})
