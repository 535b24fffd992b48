// `Node_Setting.device_role: rx_only` in a gateway: no uplink is opened and no request is sent; sources are read and kept,
// and peers that send or request here get answers.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { Gateway } from '../../../src/gateway/gateway'
import { silentLogger } from '../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../src/links/contracts'
import { Registry } from '../../../src/links/registry'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { deriveSessionKey } from '../../../src/wire/cipher'
import { commandName } from '../../../src/wire/commands'
import { rekeyFrame } from '../../../src/wire/frame'
import { until } from '../../lib/gateway'

const units = { ...wireUnits(), resolve }

async function gateway(t: TestContext, device_role: string) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-role-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const path = join(dir, 'Config.json')
  const config = {
    ...{ device_id: 'GW', assigned_id: 5, storage: { sql: { enabled: false } }, Node_Setting: { device_role } },
    RESOURCES: { transport_status: { udp: true } },
    gateway: {
      sources: [{ name: 'room', type: 'fake' }],
      log: { commit_interval_ms: 20, ack_commit_ms: 20 },
      time: { hold_unsynced_s: 0 },
      uplinks: [{ name: 'up', medium: 'UDP', delivery: 'best_effort' }],
      receivers: [{ name: 'down', medium: 'UDP' }],
    },
  }
  writeFileSync(path, JSON.stringify(config))
  const sent = new Map<string, string[]>()
  const handlers = new Map<string, PacketHandler>()
  const create = (name: string): Medium => {
    sent.set(name, [])
    return {
      ...{ name, medium: 'UDP', maxPacket: 1400, counters: { rx: 0, tx: 0, errors: 0 } },
      open: async () => undefined,
      close: async () => undefined,
      onPacket: handler => void handlers.set(name, handler),
      send: async packet => sent.get(name)!.push(commandName(packet[0]!) ?? '') > 0,
    }
  }
  const fake = {
    type: 'fake',
    create: (name: string) => ({
      ...{ name, type: 'fake', intervalMs: 15, counters: { rx: 0, tx: 0, errors: 0 } },
      open: async () => undefined,
      close: async () => undefined,
      read: async (): Promise<[string, string, number, string][]> => [['T', 'OK', 300, 'K']],
    }),
  }
  const gw = await Gateway.open({
    ...{ config: ConfigStore.load({ path, env: {}, cwd: dir }), units, script: '', version: '0', builtAt: 0 },
    registry: new Registry({
      media: { udp: async () => ({ medium: 'UDP', create }) },
      sources: { fake: async () => fake },
    }),
    ...{ defaultSources: [], role: 'run', logger: silentLogger },
  })
  t.after(() => gw.stop())
  await gw.start()
  const answers: string[] = []
  const hear = (packet: Uint8Array): void =>
    handlers.get('down')!(packet, {
      ...{ medium: 'UDP', address: '192.0.2.7:900' },
      reply: async bytes => answers.push(commandName(bytes[0]!) ?? '') > 0,
    })
  return { gw, sent, hear, answers }
}

test('an rx_only gateway opens no uplink and sends no packet on its own; its readings are kept and shown', async t => {
  const { gw, sent } = await gateway(t, 'rx_only')
  await until('readings are kept', () => gw.log.status().committed_seq > 3)
  await gw.reload()
  const status = gw.status()
  assert.deepEqual([...sent], [['down', []]], 'the medium of the uplink is not even made')
  assert.deepEqual([status.device_role, status.forwarding, status.uplinks], ['rx_only', undefined, {}])
  assert.equal(gw.latestReadings()[0]?.sensors[0]?.id, 'T')
})

test('an rx_only gateway answers peers that send data, ping or request the time or an id', async t => {
  const { hear, answers } = await gateway(t, 'rx_only')
  const encoder = new UplinkEncoder({ units, aid: 9 })
  const sensors = [{ id: 'a', status: 'OK', unit: 'K', value: 1 }]
  hear(encoder.encode({ id: 'D', state: 'ONLINE', tRaw: Date.now(), aid: 9, sensors }).bytes)
  for (const packet of ['090001', '0b0002', '0100037b7d']) hear(Buffer.from(packet, 'hex'))
  await until('answers', () => answers.length >= 4)
  assert.deepEqual(answers.sort(), ['HANDSHAKE_NACK', 'PONG', 'SECURE_DICT_READY', 'TIME_RESPONSE'])
})

test('a duplex gateway sends through its uplink', async t => {
  const { gw, sent } = await gateway(t, 'duplex')
  await until('data', () => sent.get('up')?.includes('DATA_FULL'))
  assert.equal(gw.status().device_role, 'duplex')
})

test('a gateway shows a packet of a secure session decrypted, and none without the key', async t => {
  const { gw, hear, answers } = await gateway(t, 'duplex')
  const encoder = new UplinkEncoder({ units, aid: 9 })
  const tRaw = Date.now()
  const encode = (value: number, key: Uint8Array | null): Uint8Array => {
    const sensors = [{ id: 'a', status: 'OK', unit: 'K', value }]
    return encoder
      .encode({ id: 'D', state: 'ONLINE', tRaw: tRaw + value, aid: 9, sensors }, undefined, key)
      .bytes.slice()
  }
  hear(encode(0, null))
  assert.deepEqual(answers, ['SECURE_DICT_READY'])
  const key = deriveSessionKey(9, tRaw)
  const secure = encode(1, key)
  assert.deepEqual(gw.readable(secure), rekeyFrame(secure, key, null))
  assert.equal(commandName(gw.readable(secure)![0]!)?.endsWith('_SEC'), false)
  assert.equal(gw.readable(rekeyFrame(secure, key, deriveSessionKey(9, 77))!), null)
})
