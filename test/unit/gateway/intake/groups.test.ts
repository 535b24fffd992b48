// Sub-groups end to end (decision 0020): a gateway with a medium of 60 bytes next to one of 1400. Every packet fits the smallest, the
// split is the same for all values and statuses, a sensor that cannot fit is refused with its bytes, and another list of
// uplinks splits anew.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ConfigStore } from '../../../../src/config'
import { Gateway } from '../../../../src/gateway/gateway'
import { Groups } from '../../../../src/gateway/intake/groups'
import { systemClock } from '../../../../src/lib/clock'
import { createLogger } from '../../../../src/lib/logger'
import type { Medium } from '../../../../src/links/contracts'
import { Registry } from '../../../../src/links/registry'
import type { Fact } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { isData } from '../../../../src/wire/commands'
import { until } from '../../../lib/gateway'
import { prng } from '../../../lib/random'

const units = { ...wireUnits(), resolve }
const LONG = 'a-very-long-name-for-one-sensor'
const ids = ['T1', 'T2', 'T3', LONG, 'H1', 'H2']

async function gateway(t: TestContext, uplinks: object[]) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-groups-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const lines: string[] = []
  const logger = createLogger({ write: line => void lines.push(line) })
  const path = join(dir, 'Config.json')
  const config = {
    ...{ device_id: 'GW', assigned_id: 5, storage: { sql: { enabled: false } } },
    RESOURCES: { transport_status: { udp: true }, physical_status: { lora: true } },
    gateway: {
      sources: [{ name: 'room', type: 'fake' }],
      log: { commit_interval_ms: 20 },
      time: { hold_unsynced_s: 0 },
      uplinks,
    },
  }
  writeFileSync(path, JSON.stringify(config))
  const store = ConfigStore.load({ path, env: {}, cwd: dir, logger })
  const sent = new Map<string, Uint8Array[]>()
  const medium = (kind: string, maxPacket: number) => async () => ({
    medium: kind,
    create: (name: string): Medium => ({
      ...{ name, medium: kind, maxPacket, counters: { rx: 0, tx: 0, errors: 0 } },
      open: async () => undefined,
      close: async () => undefined,
      onPacket: () => undefined,
      send: async packet => {
        if (isData(packet[0]!)) sent.set(name, [...(sent.get(name) ?? []), packet.slice()])
        return true
      },
    }),
  })
  const random = prng(4)
  const statuses = ['OK', 'ALARM', 'a status of its own']
  const fake = {
    type: 'fake',
    create: (name: string) => ({
      ...{ name, type: 'fake', intervalMs: 15, counters: { rx: 0, tx: 0, errors: 0 } },
      open: async () => undefined,
      close: async () => undefined,
      read: async () =>
        ids.map((id): [string, string, number, string] => [
          id,
          id === 'T2' ? statuses[Math.floor(random() * 2)]! : 'OK',
          (random() - 0.5) * 10 ** Math.floor(random() * 9),
          'K',
        ]),
    }),
  }
  const gw = await Gateway.open({
    ...{ config: store, units, script: '', version: '0', builtAt: 0, logger },
    registry: new Registry({
      media: { udp: medium('UDP', 1400), lora: medium('LoRa', 60) },
      sources: { fake: async () => fake },
    }),
    ...{ defaultSources: [], role: 'run', clock: systemClock },
  })
  t.after(() => gw.stop())
  await gw.start()
  return { gw, store, lines, sent: (name: string): Uint8Array[] => sent.get(name) ?? [] }
}

const entry = (name: string, medium: string): object => ({ name, medium, delivery: 'best_effort' })
/** Sensor ids of the packets from that one on; earlier ones give the templates. */
const groupsOf = (packets: Uint8Array[], from = 0): string[] => {
  const receiver = new Receiver({ units })
  const seen = packets.map(packet => {
    const received = receiver.receive(packet)
    assert.ok(received.kind === 'fact', received.kind === 'error' ? received.message : '')
    return received.fact.sensors.map(({ id }) => id).join()
  })
  return [...new Set(seen.slice(from))].sort()
}

test('each packet fits the 60 bytes, in fixed groups; a sensor that cannot fit is refused with its bytes', async t => {
  const { gw, store, lines, sent } = await gateway(t, [entry('wide', 'UDP'), entry('tiny', 'LoRa')])
  await until('the first uplink is active', () => sent('wide').length > 60)
  assert.equal(gw.uplinks.maxPacket, 60)
  assert.ok(sent('wide').every(packet => packet.length <= 60))
  assert.deepEqual(groupsOf(sent('wide')), ['H1', 'H2', 'T1', 'T2', 'T3'])
  assert.equal(gw.intake.counters.refused_groups, 0)
  assert.ok(gw.status().dropped.rows > 5)
  const told = lines.filter(line => line.includes(LONG))
  assert.equal(told.length, 1, 'reported once')
  assert.match(told[0]!, /alone may need \d+ bytes, the smallest uplink carries 60/)

  store.set('gateway.uplinks', [entry('wide', 'UDP')])
  await until('the list is complete', () => gw.uplinks.names.length === 1)
  const before = sent('wide').length
  const all = ids.join()
  await until('one packet contains all', () => groupsOf(sent('wide'), before).includes(all))

  store.set('gateway.uplinks', [entry('tiny', 'LoRa')])
  await until('the small uplink is active', () => gw.uplinks.active?.name === 'tiny' && sent('tiny').length > 20)
  assert.ok(sent('tiny').every(packet => packet.length <= 60))
  assert.ok(groupsOf(sent('tiny')).every(group => !group.includes(LONG)))
})

test('a split stays while it fits, only gets finer, and is recomputed for another size', () => {
  const groups = new Groups(fact => fact.sensors.reduce((sum, { status }) => sum + status.length, 0))
  const fact = (...lengths: number[]): Fact => ({
    ...{ id: 'D', state: 'ONLINE', tRaw: 1, aid: 1 },
    sensors: lengths.map((length, k) => ({ id: `S${k}`, status: 'x'.repeat(length), unit: 'K', value: 1 })),
  })
  const counts = (one: Fact, limit = 10): number[] => groups.cut(one, limit).pieces.map(({ sensors }) => sensors.length)
  assert.deepEqual(counts(fact(2, 2, 2, 2)), [4])
  assert.deepEqual(counts(fact(4, 4, 4, 4)), [2, 2])
  assert.deepEqual(counts(fact(2, 2, 2, 2)), [2, 2], 'would fit as one')
  assert.deepEqual(counts(fact(4, 7, 4, 4)), [1, 1, 2])
  assert.deepEqual(counts(fact(4, 4, 4, 4)), [1, 1, 2])
  assert.deepEqual(counts(fact(4, 4, 4, 4), 20), [4])
  const { pieces, tooLarge } = groups.cut(fact(2, 30, 2, 2), 10)
  assert.deepEqual(tooLarge, [{ index: 1, bytes: 30 }])
  assert.deepEqual(
    pieces.map(({ sensors }) => sensors.map(({ id }) => id)),
    [['S0'], ['S2', 'S3']],
  )
})
