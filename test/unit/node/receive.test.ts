// How a node handles packets that arrive late, twice, from C firmware, or from a node that only relays them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Reading } from '../../../src/pipeline/fact'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../../src/wire/frame'
import { Bench, ROWS } from './helper'

const bench = new Bench()
const T0 = 1_710_000_000
const row = (value: number): Reading[] => [['T1', 'OK', value, 'Cel']]

/** A plaintext FULL as the C libraries encode it: TS in seconds. */
function firmware(aid: number, tid: number, seconds: number, body: string): Buffer {
  const bytes = Buffer.from(body)
  const out = Buffer.alloc(FRAME_OVERHEAD + bytes.length)
  const start = writeHeader(out, 0, 0x3f, aid, tid, seconds)
  out.set(bytes, start)
  return out.subarray(0, sealFrame(out, 0, start, start + bytes.length))
}

test('a late packet is decoded with the state of its time, or requested again, and never changes the current state', () => {
  const from = bench.node('from', { assigned_id: 5 })
  const to = bench.node('to', { assigned_id: 900 })
  const packets = [1, 2, 3, 4, 5, 6].map(v => from.transmit(row(v), null, 'ONLINE', { t: T0 + v })[0])
  const value = (k: number): unknown => to.receiveViaProtocol(packets[k]!, 'client:1').result['s1_v']
  assert.deepEqual([value(0), value(1), value(2), value(3), value(5)], [274.15, 275.15, 276.15, 277.15, 279.15])
  const { result } = to.receiveViaProtocol(packets[4]!, 'client:1')
  assert.equal(result['s1_v'], 278.15)
  assert.equal((result['__packet_meta__'] as { late?: boolean }).late, true)
  const heart = from.transmit(row(6), null, 'ONLINE', { t: T0 + 7 })[0]
  assert.equal(to.receive(heart).s1_v, 279.15)
})

test('a packet that arrives twice is marked as a duplicate', () => {
  const from = bench.node('twice-from', { assigned_id: 5 })
  const to = bench.node('twice-to', { assigned_id: 900 })
  const packet = from.transmit(ROWS, null, 'ONLINE', { t: T0 })[0]
  const duplicate = (): unknown =>
    Reflect.get(to.receiveViaProtocol(packet, 'client:1').result['__packet_meta__'] as object, 'duplicate')
  assert.deepEqual([duplicate(), duplicate()], [undefined, true])
})

test('bodies and times of C firmware are decoded to the same facts', () => {
  const to = bench.node('firmware-to', { assigned_id: 900 })
  const single = to.receive(firmware(7, 1, T0, 'T1|A01|3pP2'))
  assert.deepEqual(
    [single.error, single.s1_id, single.s1_u, single.t, single.t_raw],
    [undefined, 'T1', 'K', T0, T0 * 1000],
  )
  const many = to.receive(firmware(7, 2, T0, `NODE.ONLINE.${T0}|T1>OK.A01:3pP2|P1>OK.Pa:fxSK|`))
  assert.deepEqual([many.id, many.s, many.s2_u, many.s1_v], ['NODE', 'ONLINE', 'Pa', single.s1_v])
})

test('relay: a forwarded packet is decoded like the original, with the same source, TID and time', () => {
  for (const unit_dialect of ['ucum', 'attribute']) {
    const config = { engine_settings: { unit_dialect } }
    const from = bench.node(`relay-from-${unit_dialect}`, { assigned_id: 5, ...config })
    const relay = bench.node(`relay-${unit_dialect}`, { assigned_id: 6, ...config })
    const end = bench.node(`relay-end-${unit_dialect}`, { assigned_id: 7, ...config })
    const packets = [1, 2, 3, 4, 5, 5].map((v, k) => from.transmit(row(v), 'HUB', 'Idle', { t: T0 + k })[0])
    assert.throws(() => relay.relay(packets[4]!), { code: 'RELAY_UNDECODABLE' })
    for (const packet of packets) {
      const passed = relay.relay(packet)
      assert.equal(passed[0], 0x3f)
      const { __packet_meta__: meta, ...fact } = relay.receive(packet)
      const { __packet_meta__: got, ...arrived } = end.receive(passed)
      assert.deepEqual(arrived, fact)
      assert.deepEqual([got.source_aid, got.tid, got.timestamp_raw], [5, meta.tid, meta.timestamp_raw])
    }
    relay.receive(from.transmit(row(9), 'HUB', 'Idle', { t: T0 + 20 })[0])
    assert.throws(() => relay.relay(packets[3]!), { code: 'RELAY_UNDECODABLE' }, 'its state is gone')
    assert.equal(end.receive(relay.relay(packets[0]!)).s1_v, 274.15, 'a late FULL says all itself')
  }
})
