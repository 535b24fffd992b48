// Node as the facade of the protocol: time on the wire (decision 0044), the state after a restart (X22), key frames on request (X9),
// the optional parts of a packet, batches, roles, and the ids that a configuration may contain.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Node, TransmitOptions } from '../../../src/index'
import { systemClock } from '../../../src/lib/clock'
import type { Reading } from '../../../src/pipeline/fact'
import { buildNack, buildTimeResponse } from '../../../src/protocol/control'
import { Bench, commands, ROWS, SERVER } from './helper'

const bench = new Bench()
const T0 = 1_710_000_000_000
const row = (value: number): Reading[] => [['T1', 'OK', value, 'Cel']]

test('a time is stamped in milliseconds or sent as supplied; an implausible date is replaced, in whole seconds', () => {
  bench.clock.wallMs = T0 + 123
  const node = bench.node('time', { assigned_id: 3 })
  const wire = (options: TransmitOptions): number => {
    const packet = node.transmit(ROWS, null, 'ONLINE', options)[0]
    return packet.readUIntBE(7, 6)
  }
  assert.equal(wire({}), T0 + 123)
  assert.equal(wire({ t: 1_710_000_000.4567 }), T0 + 456)
  assert.equal(wire({ t: 1_710_000_000_012 }), T0 + 12)
  assert.equal(wire({ t: 1_000_000 }), 1_000_000_000)
  assert.equal(wire({ t: 999_999 }), T0)
  assert.equal(wire({ no_timestamp: true, t: 5 }), 0)
  node.protocol.noteServerTime(1_722_222_222)
  bench.clock.advance(2500)
  assert.equal(wire({ t: 77 }), 1_722_222_224_000, 'the server time goes on')
  const opened = bench.node('time-server', { assigned_id: 900 })
  const { response } = opened.receiveViaProtocol(node.transmit([])[0], 'client:1')
  node.receiveViaProtocol(response!, SERVER)
  assert.equal(wire({ t: 77 }), 77_000, 'with a secure dict it is sent unchanged')
  for (const t of [-1, Number.NaN, Number.POSITIVE_INFINITY, '5' as never])
    assert.throws(() => node.transmit(ROWS, null, 'ONLINE', { t }), { code: 'BAD_TIME' })
})

test('a time answer counts only for a request of this node', () => {
  const node = bench.node('time2', { assigned_id: 3 })
  node.receiveViaProtocol(Buffer.from(buildTimeResponse(1, 1_722_222_222)), SERVER)
  assert.equal(node.protocol.lastServerTime, 0)
  const request = node.protocol.buildTimeRequest()
  node.receiveViaProtocol(Buffer.from(buildTimeResponse((request[1]! << 8) | request[2]!, 1_722_222_222)), SERVER)
  assert.equal(node.protocol.lastServerTime, 1_722_222_222)
})

test('every run begins with FULL', async () => {
  const send = (node: ReturnType<Bench['node']>): string[] => commands([1, 2, 3, 4].map(v => node.transmit(row(v))[0]))
  const node = bench.node('restart', { assigned_id: 4 })
  assert.deepEqual(send(node), ['3f', '3f', '3f', 'aa'])
  await node.close()
  assert.deepEqual(send(bench.node('restart', { assigned_id: 4 })), ['3f', '3f', '3f', 'aa'])
})

test('a receiver without the template asks for a FULL and gets it', () => {
  const node = bench.node('needs', { assigned_id: 5, engine_settings: { unit_dialect: 'attribute' } })
  const late = bench.node('late', { assigned_id: 900, engine_settings: { unit_dialect: 'attribute' } })
  for (let v = 0; v < 4; v++) node.transmit(row(v))
  const packet = node.transmit(row(9))[0]
  const { response, result } = late.receiveViaProtocol(packet, 'client:1')
  assert.equal(result['error'], 'Template 01 missing for 0xAA')
  assert.match(Buffer.from(response!.subarray(3)).toString(), /^NEED_FULL;5;1;/)
  node.receiveViaProtocol(response!, '198.51.100.1:9')
  assert.deepEqual(commands([node.transmit(row(10))[0]]), ['aa'], 'not from there')
  const again = late.receiveViaProtocol(node.transmit(row(11))[0], 'client:1').response!
  node.receiveViaProtocol(again, SERVER)
  const full = node.transmit(row(12))[0]
  assert.deepEqual(commands([full]), ['3f'])
  assert.equal(late.receiveViaProtocol(full, 'client:1').result['s1_v'], 285.15)
})

test('geohash, url and msg are sent in both dialects, with the readings that can be sent', () => {
  for (const unit_dialect of ['ucum', 'attribute']) {
    const node = bench.node(`extras-${unit_dialect}`, { assigned_id: 6, engine_settings: { unit_dialect } })
    const extras = { t: 1_710_000_000, geohash: 'wx4g0', url: 'https://a.b/c', msg: 'hi' }
    const rows: Reading[] = [...row(21.5), ['X', 'OK', 1, 'bogus']]
    const packets = [1, 2, 3, 4].map(() => node.transmit(rows, null, 'ONLINE', extras)[0])
    assert.deepEqual(commands(packets), ['3f', '3f', '3f', '7f'])
    assert.deepEqual(
      node.lastRejected.map(({ index, code }) => `${index} ${code}`),
      ['1 UNKNOWN_UNIT'],
    )
    const reader = bench.node(`reader-${unit_dialect}`, { engine_settings: { unit_dialect } })
    const fact = packets.map(packet => reader.receive(packet)).at(-1)!
    assert.deepEqual(
      [fact.geohash, fact.url, fact.msg, fact.s1_v, fact.s2_id, fact.t_raw],
      ['wx4g0', 'https://a.b/c', 'hi', 294.65, undefined, T0],
    )
    node.transmit(row(1))
    assert.deepEqual(node.lastRejected, [])
    assert.throws(() => node.transmit([['X', 'OK', 1, 'bogus']], null, 'ONLINE', extras), {
      code: 'ALL_READINGS_REFUSED',
    })
    assert.throws(() => node.transmit(row(1), 'a|b', 'ONLINE', extras), { code: 'BAD_ID' })
  }
})

test('a batch accepts objects and bare lists of readings; values of an object override the common ones', () => {
  const node = bench.node('batch', { assigned_id: 7 })
  const results = node.transmitBatch([row(1), { sensors: row(2), device_id: 'OTHER', t: 1_710_000_005 }], {
    t: 1_710_000_009,
    device_status: 'OFFLINE',
  })
  const facts = results.map(([packet]) => node.receive(packet))
  assert.deepEqual(
    facts.map(f => [f.id, f.s, f.t]),
    [
      ['batch', 'OFFLINE', 1_710_000_009],
      ['OTHER', 'OFFLINE', 1_710_000_005],
    ],
  )
})

test('roles: tx_only accepts no data and answers no request, rx_only does not check the time', () => {
  const sender = bench.node('sender', { assigned_id: 32 })
  const packet = sender.transmit(ROWS)[0]
  const tx = bench.node('tx', { assigned_id: 31, Node_Setting: { device_role: 'tx_only' } })
  assert.equal(tx.receiveViaProtocol(packet).type, 'IGNORED')
  assert.equal(tx.receiveViaProtocol(Buffer.from('090001', 'hex')).type, 'IGNORED')
  assert.equal(tx.receive(packet).s1_id, 'T1')
  const rx = bench.node('rx', { assigned_id: 33, Node_Setting: { device_role: 'rx_only' } })
  const { result } = rx.receiveViaProtocol(packet)
  assert.equal((result['__packet_meta__'] as { timestamp_raw: number }).timestamp_raw, 0)
  assert.equal(rx.receive(packet).__packet_meta__.timestamp_raw, 0)
  assert.equal(rx.receiveViaProtocol(Buffer.from('010001', 'hex')).type, 'IGNORED')
})

test('an rx_only node sends no request: no id, no time, no reply to a packet; the reason is RX_ONLY', async () => {
  const asked: Uint8Array[] = []
  const request = async (_host: string, _port: number, packet: Uint8Array): Promise<null> => {
    asked.push(packet)
    return null
  }
  const node = bench.node('rx-asks', { Node_Setting: { device_role: 'rx_only' } }, { request })
  const refused = (): void => {
    assert.equal(node.lastError?.code, 'RX_ONLY')
    assert.match(node.lastError.hint, /device_role/)
  }
  assert.equal(await node.ensureId('192.0.2.1', 8080), false)
  refused()
  assert.equal(await node.ensureTime(), null)
  refused()
  assert.equal(await node.dispatchWithReply(Buffer.from('090001', 'hex')), null)
  refused()
  assert.deepEqual(asked, [])
  const known = bench.node('rx-known', { assigned_id: 34, Node_Setting: { device_role: 'rx_only' } }, { request })
  assert.equal(await known.ensureId('192.0.2.1', 8080), true, 'an id that is there need not be asked for')
  assert.equal(await known.dispatch(known.transmit(ROWS)[0], 'UDP'), false)
  assert.equal(known.lastError?.code, 'RX_ONLY')
  await known.close()
})

test('a server that refuses an id is named with its reason, and is not taken for a silent one', async () => {
  const refusal = buildNack(1, 'ID_QUOTA')
  const request = async (): Promise<Uint8Array> => refusal
  const node = bench.node('refused', { assigned_id: null }, { request: request as never })
  assert.equal(await node.ensureId('192.0.2.1', 8080, null, 0.2), false)
  assert.equal(node.lastError?.code, 'ID_ALLOC_FAILED')
  assert.match(node.lastError.message, /^192\.0\.2\.1:8080 refused: ID_QUOTA$/)
  await node.close()
})

test('"no id" is accepted in every spelling of the reference; digits may be text', () => {
  for (const assigned_id of [null, '', 'UNKNOWN', 0, 4294967295, '0', '4294967295'])
    assert.throws(() => bench.node('noid', { assigned_id }).transmit(ROWS), { code: 'NO_ASSIGNED_ID' })
  assert.equal(bench.node('digits', { assigned_id: '77' }).transmit(ROWS)[1], 77)
})

test('dialect attribute in the configuration reaches standardizer, core and decoder', () => {
  const node = bench.node('attribute', { assigned_id: 8, engine_settings: { unit_dialect: 'attribute' } })
  assert.equal(node.standardizer.standardize('D', 'ONLINE', ROWS, { t: 1 }).s1_u, 'temperature')
  const fact = node.receive(node.transmit(ROWS)[0])
  assert.deepEqual([fact.s1_u, fact.s1_v, fact.s2_u], ['temperature', 294.65, 'pressure'])
  const mixed = bench.node('ucum-peer').receive(node.transmit(ROWS)[0])
  assert.deepEqual([mixed.s1_u, mixed.s1_v, mixed.s2_u], ['K', 294.65, 'Pa'], 'a peer in dialect ucum reads it right')
  const off = bench.node('no-ids', {
    assigned_id: 8,
    engine_settings: { unit_dialect: 'attribute' },
    payload_switches: { SensorId: false },
  })
  assert.equal(off.receive(off.transmit(ROWS)[0]).s1_id, undefined)
  assert.equal(JSON.parse(readFileSync(off.configPath, 'utf8')).payload_switches.SensorId, false)
})

test('a node without a device id creates one and stores it before it requests an id: two fresh installs are two devices', async () => {
  const asked: { name: unknown; kept: unknown }[] = []
  const fresh = (name: string, config: Record<string, unknown> = {}): Node => {
    const file = join(bench.dir, name, 'Config.json')
    const request = async (_host: string, _port: number, packet: Uint8Array): Promise<null> => {
      const { device_id } = JSON.parse(readFileSync(file, 'utf8'))
      asked.push({ name: JSON.parse(Buffer.from(packet.subarray(3)).toString()).device_id, kept: device_id })
      return null
    }
    return bench.node(name, { device_id: '', ...config }, { request, clock: systemClock })
  }
  const one = fresh('fresh-1')
  assert.equal(one.deviceId, 'UNKNOWN')
  assert.equal(await one.ensureId('192.0.2.1', 8080, null, 0.05), false)
  await fresh('fresh-2').ensureId('192.0.2.1', 8080, null, 0.05)
  // the reference writes its word for "no name" into the file, and a caller may pass it
  const named = fresh('fresh-3', { device_id: 'UNKNOWN' })
  await named.ensureId('192.0.2.1', 8080, { device_id: 'UNKNOWN', device_key: 'UNKNOWN' }, 0.05)
  const pool: Uint8Array[] = []
  await named.protocol.requestIdPoolViaTransport(
    packet => void pool.push(packet),
    () => null,
    4,
    null,
    0.05,
  )
  assert.equal(JSON.parse(Buffer.from(pool[0]!.subarray(5)).toString()).device_id, named.deviceId)
  const names = [...new Map(asked.map(({ name, kept }) => [name, kept]))]
  assert.equal(names.length, 3)
  for (const [name, kept] of names) {
    assert.match(String(name), /^.+-[0-9a-f]{4}$/)
    assert.equal(kept, name, 'kept before the request')
  }
  assert.equal(one.deviceId, names[0]![0])
  // with a name that cannot be stored no request is sent
  const before = asked.length
  const broken = fresh('fresh-4')
  writeFileSync(join(bench.dir, 'fresh-4/Config.json'), '{')
  assert.equal(await broken.ensureId('192.0.2.1', 8080, null, 0.05), false)
  assert.equal(broken.lastError?.code, 'CONFIG_SYNTAX')
  assert.equal(asked.length, before)
})
