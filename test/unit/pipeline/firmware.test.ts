// C firmware as a sender: its frames are built here by hand from their layout, and the gateway's receiver and fusion decode
// them to the same facts.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Fact, SensorFact } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { Receiver } from '../../../src/pipeline/receiver'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { deriveSessionKey } from '../../../src/wire/cipher'
import { ManualClock } from '../../lib/manual'
import { dictToFact } from '../../lib/packets'
import { peerFrame, peerText } from '../../lib/peer'

const AID = 77
const SECONDS = 1_710_001_234
const units = wireUnits()
const clock = new ManualClock(SECONDS * 1000)
const FULL = 0x3f
const DIFF = 0xaa
const HEART = 0x7f

/** value × 10 000, truncated, in Base62 */
const value = (x: number): string => peerText(BigInt(Math.trunc(x * 10_000)))

/** Both decoders in one; they must agree. */
function listener(keys: (aid: number) => Uint8Array | null = () => null) {
  const receiver = new Receiver({ units, clock, inboundKey: keys })
  const fusion = new Fusion(null, { units, clock, localId: 1, keys: { inbound: keys, outbound: () => null } })
  return (packet: Uint8Array): Fact => {
    const got = receiver.receive(packet)
    const dict = fusion.decompress(packet)
    assert.ok(got.kind === 'fact', JSON.stringify(got))
    assert.equal(dict.error, undefined, JSON.stringify(dict))
    assert.deepEqual(dictToFact(dict, got.fact.aid), got.fact)
    assert.equal(dict.t, Math.floor(got.fact.tRaw / 1000))
    return got.fact
  }
}
const refused = (packet: Uint8Array, before: readonly Uint8Array[]): string => {
  const receiver = new Receiver({ units, clock })
  for (const earlier of before) receiver.receive(earlier)
  const got = receiver.receive(packet)
  return got.kind === 'error' ? got.code : 'fact'
}
const frame = (cmd: number, body: string | Uint8Array, ts = SECONDS, tid = 2): Buffer =>
  peerFrame(cmd, [AID], tid, ts, body)
const diff = (mask: number, ...slots: string[]): Buffer =>
  Buffer.concat([Buffer.of(mask), ...slots.map(slot => Buffer.concat([Buffer.of(slot.length), Buffer.from(slot)]))])
const sensor = (id: string, unit: string, x: number | null, status = 'OK'): SensorFact => ({
  id,
  status,
  unit,
  value: x,
})

test('the bytes of a frame equal those computed by hand', () => {
  const bytes = peerFrame(FULL, [0x01020304], 7, 0x1234, 'T1|A01|2Bi')
  const head = '3f 01 01020304 07 000000001234'
  const body = '54 31 7c 41 30 31 7c 32 42 69'
  assert.equal(bytes.toString('hex'), `${head}${body} 5c 8f2a`.replaceAll(' ', ''))
  const fact = listener()(bytes)
  assert.deepEqual(fact, {
    id: String(0x01020304),
    state: 'ONLINE',
    tRaw: 0x1234 * 1000,
    aid: 0x01020304,
    sensors: [sensor('T1', 'K', 1 + 273.15)],
  })
})

test('one sensor without a head: always FULL, the AID names the device, no later frame depends on it', () => {
  const listen = listener()
  for (const [token, x, unit, factor, offset] of [
    ['K', 293.15, 'K', 1, 0],
    ['A01', -20.5, 'K', 1, 273.15],
    ['Cel', 21.25, 'K', 1, 273.15],
    ['900', 101_325, 'Pa', 1, 0],
    ['C00', 55.5, '%', 1, 0],
    ['902', 14.7, 'Pa', 6894.757293168359, 0],
  ] as const) {
    const fact = listen(frame(FULL, `P1|${token}|${value(x)}`, SECONDS, 3))
    assert.deepEqual([fact.id, fact.state, fact.tRaw], [String(AID), 'ONLINE', SECONDS * 1000])
    const { unit: told, value: got } = fact.sensors[0]!
    assert.equal(told, unit)
    assert.ok(Math.abs(got! - (x * factor + offset)) <= 1e-4 * factor, `${token}: ${got}`)
  }
  assert.equal(refused(frame(DIFF, diff(2, '1'), SECONDS, 3), [frame(FULL, 'P1|K|1', SECONDS, 3)]), 'NEED_FULL')
})

test('one sensor with a head: a time token of seconds, then DIFF and HEART after one FULL', () => {
  const listen = listener()
  const token = Buffer.from(SECONDS.toString(16).padStart(12, '0'), 'hex').toString('base64url')
  const told = (fact: Fact): unknown => [fact.id, fact.state, fact.tRaw, fact.sensors]
  const first = listen(frame(FULL, `${AID}.U.${token}|TEMP>U.K:${value(295.4)}|`))
  assert.deepEqual(told(first), [String(AID), 'U', SECONDS * 1000, [sensor('TEMP', 'K', 295.4, 'U')]])
  const second = listen(frame(DIFF, diff(2, value(295.5)), SECONDS + 1))
  assert.deepEqual(told(second), [String(AID), 'U', (SECONDS + 1) * 1000, [sensor('TEMP', 'K', 295.5, 'U')]])
  const third = listen(frame(HEART, '', SECONDS + 2))
  assert.deepEqual(told(third), [String(AID), 'U', (SECONDS + 2) * 1000, [sensor('TEMP', 'K', 295.5, 'U')]])
  assert.deepEqual(listen(frame(DIFF, diff(1, 'U.Pa'), SECONDS + 3)).sensors, [sensor('TEMP', 'Pa', 295.5, 'U')])
})

test('several sensors with decimal seconds: DIFF and HEART are decoded after the FULL', () => {
  const listen = listener()
  const body = `NODE.ONLINE.${SECONDS}|T>OK.K:${value(290)}|P>OK.Pa:${value(101_325.5)}|H>WARN.%:${value(48.25)}|`
  const expected = [sensor('T', 'K', 290), sensor('P', 'Pa', 101_325.5), sensor('H', '%', 48.25, 'WARN')]
  const first = listen(frame(FULL, body))
  assert.deepEqual(first, { id: 'NODE', state: 'ONLINE', tRaw: SECONDS * 1000, aid: AID, sensors: expected })
  expected[1]!.value = -1.5
  expected[2] = sensor('H', '%', 47, 'OK')
  // slot 3 is the value of P, slots 4 and 5 are state.unit and value of H
  const changed = listen(frame(DIFF, diff(0b111000, value(-1.5), 'OK.%', value(47)), SECONDS + 1))
  assert.deepEqual([changed.tRaw, changed.sensors], [(SECONDS + 1) * 1000, expected])
  assert.deepEqual(listen(frame(HEART, '', SECONDS + 9)).sensors, expected)
})

test('several frames within one second build on each other, in the order of arrival', () => {
  const listen = listener()
  listen(frame(FULL, `N.ONLINE.${SECONDS}|a>OK.K:1|b>OK.K:1|`))
  assert.deepEqual(listen(frame(DIFF, diff(0b0010, '2'))).sensors, [sensor('a', 'K', 0.0002), sensor('b', 'K', 0.0001)])
  assert.deepEqual(listen(frame(DIFF, diff(0b1000, '3'))).sensors, [sensor('a', 'K', 0.0002), sensor('b', 'K', 0.0003)])
  assert.deepEqual(listen(frame(HEART, '')).sensors, [sensor('a', 'K', 0.0002), sensor('b', 'K', 0.0003)])
})

test('fields that the firmware has no slot for are reported from the FULL and never repeated', () => {
  const listen = listener()
  const body = `N.ONLINE.${SECONDS}|${['a', 'a_very_long_name', 'b', 'c', 'd', 'e'].map((id, k) => `${id}>OK.K:${k}`).join('|')}|`
  assert.deepEqual(
    listen(frame(FULL, body)).sensors.map(s => s.id),
    ['a', 'a_very_long_name', 'b', 'c', 'd', 'e'],
  )
  // its mask is one byte: of a, b, c and d
  const after = listen(frame(DIFF, diff(0b10001000, 'Z', 'Y'), SECONDS + 1)).sensors
  assert.deepEqual(
    after.map(s => [s.id, s.value]),
    [
      ['a', 0],
      ['b', 0.0061],
      ['c', 0.0003],
      ['d', 0.006],
    ],
  )
  assert.equal(listen(frame(HEART, '', SECONDS + 2)).sensors.length, 4)
  // firmware built with a larger table has a longer mask: refused, never guessed
  const wide = Buffer.concat([Buffer.of(1), diff(0, 'Z')])
  assert.equal(refused(frame(DIFF, wide, SECONDS + 1), [frame(FULL, body)]), 'NEED_FULL')
})

test('texts after a value are ignored, in FULL and DIFF', () => {
  const listen = listener()
  listen(frame(FULL, `N.ONLINE.${SECONDS}|a>OK.NA:${value(7)}!warm|b>OK.K:1#u33@r/1|`))
  const fact = listen(frame(DIFF, diff(0b10, `${value(8)}!hot`), SECONDS + 1))
  assert.deepEqual(fact.sensors, [sensor('a', 'NA', 8), sensor('b', 'K', 0.0001)])
  // a colon in the text shifts the firmware's slots: the FULL is read, no later frame depends on it
  const odd = frame(FULL, `N.ONLINE.${SECONDS}|a>OK.K:${value(7)}!at 12:30; all well|`)
  assert.deepEqual(listener()(odd).sensors, [sensor('a', 'K', 7)])
  assert.equal(refused(frame(HEART, '', SECONDS + 1), [odd]), 'NEED_FULL')
})

test('the TS rules: below 1e11 is seconds, zero is stamped here, a clock that counts from its start is accepted unchanged', () => {
  const times = [1, 99_999_999_999, 100_000_000_000, 0].map(
    ts => listener()(frame(FULL, `N.ONLINE.${ts}|a>OK.K:1|`, ts)).tRaw,
  )
  assert.deepEqual(times, [1000, 99_999_999_999_000, 100_000_000_000, SECONDS * 1000])
  // eight decimal digits look like a time token of another kind
  const early = listener()(frame(FULL, 'N.ONLINE.12345678|a>OK.K:1|', 12_345_678))
  assert.deepEqual([early.tRaw, early.id], [12_345_678_000, 'N'])
})

test('secure frames: the key is of the TS as it is in the frame, in seconds', () => {
  const key = deriveSessionKey(AID, SECONDS)
  const cipher = (plain: Buffer, crc8: number): Buffer =>
    Buffer.from(plain.map((byte, k) => byte ^ key[(k + (crc8 & 31)) % 32]! ^ (crc8 & 31)))
  const token = Buffer.from(SECONDS.toString(16).padStart(12, '0'), 'hex').toString('base64url')
  const body = `${AID}.U.${token}|T>U.K:${value(300)}|`
  const listen = listener(aid => (aid === AID ? key : null))
  assert.equal(listen(peerFrame(0x40, [AID], 1, SECONDS + 5, body, cipher)).sensors[0]!.value, 300)
  assert.equal(listen(peerFrame(0xab, [AID], 1, SECONDS + 6, diff(2, value(301)), cipher)).sensors[0]!.value, 301)
  assert.equal(listen(peerFrame(0x80, [AID], 1, SECONDS + 7, '')).sensors[0]!.value, 301)
})

test('multi-hop frames: the source is the last of the route', () => {
  const listen = listener()
  const body = `N.ONLINE.${SECONDS}|a>OK.K:${value(5)}|`
  for (const routes of [[AID], [5, AID], [9, 5, AID], new Array<number>(255).fill(3).concat(AID).slice(1)]) {
    const packet = peerFrame(FULL, routes, 1, SECONDS, body)
    assert.equal(listen(packet).aid, AID)
    const got = new Receiver({ units, clock }).receive(packet)
    assert.deepEqual(got.meta.routes, routes.length > 1 ? routes : undefined)
  }
})

/**
 * Every unit text in the firmware's headers, and its meaning: unit, factor, offset. The texts are UCUM's (`cal` is
 * 4.184 J), unlike the token 302.
 */
const TEXTS = `m m 1|in m 0.0254|ft m 0.3048|nmi m 1852|AU m 149597870691|ang m 1e-10|g kg 0.001|lb kg 0.45359237
oz kg 0.028349523125|t kg 1000|u kg 1.66053e-27|s s 1|min s 60|h s 3600|d s 86400|wk s 604800|ann s 31557600|K K 1
Cel K 1 273.15|degF K 0.5555555555555556 255.37222222222223|degRe K 1.25 273.15|Bi A 10|Gau A 3.335641e-10|mol mol 1
eq mol 1|osm mol 1|count {particles} 1|cd cd 1|cp cd 0.981|hk cd 0.903|Pa Pa 1|bar Pa 1e5|psi Pa 6894.757293168359
atm Pa 101325|mm[Hg] Pa 133.322|Hz Hz 1|rpm Hz 0.016666666666666666|deg/s rad/s 0.017453292519943295|rad/s rad/s 1|W W 1
J J 1|cal J 4.184|hp W 735.49875|V V 1|Ohm Ohm 1|F F 1|bit bit 1|By bit 8|Bd s-1 1|% % 1|pow.on {pow.on} 1|cmdA {cmdA} 1
modeZ {modeZ} 1|stp.e {stp.e} 1|kPa Pa 1000|mV V 0.001|kJ J 1000|uA A 1e-6`

test('every unit text of the firmware has its meaning', () => {
  const listen = listener()
  for (const row of TEXTS.split(/[|\n]/)) {
    const [text, unit, factor, offset = '0'] = row.split(' ') as [string, string, string, string?]
    const { unit: told, value: got } = listen(frame(FULL, `S1|${text}|${value(1000)}`)).sensors[0]!
    assert.equal(told, unit, text)
    const want = 1000 * Number(factor) + Number(offset)
    assert.ok(Math.abs(got! / want - 1) < 1e-4, `${text}: ${got}, should be ${want}`)
  }
  // a class token elsewhere is plain UCUM here
  for (const [text, unit] of ['A A', 'C C', 'B B', 'A/m A/m', 'm/A m/A', 'A2 A2'].map(row => row.split(' ')))
    assert.equal(listen(frame(FULL, `S1|${text}|1`)).sensors[0]!.unit, resolve(unit!)!.canonical, text)
})

test('texts of uncertain meaning are kept and counted', () => {
  const receiver = new Receiver({ units, clock })
  for (const token of ['2', '3', 'NA', 'foo', '2/B00']) {
    const before = receiver.counters.unitAmbiguous
    const got = receiver.receive(frame(FULL, `S1|${token}|1`))
    assert.ok(got.kind === 'fact')
    assert.equal(got.fact.sensors[0]!.unit, token)
    assert.equal(receiver.counters.unitAmbiguous, before + 1)
  }
})

test('after a FULL of the firmware the unit of a DIFF is plain too, over a stop and in a spill file; a FULL of another sender ends that', () => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-firmware-'))
  const token = Buffer.from(SECONDS.toString(16).padStart(12, '0'), 'hex').toString('base64url')
  const unitOf = (receiver: Receiver, packet: Uint8Array): string => {
    const got = receiver.receive(packet)
    assert.ok(got.kind === 'fact', JSON.stringify(got))
    return got.fact.sensors[0]!.unit
  }
  for (const options of [{ registryDir: dir }, { registryDir: dir, spillDir: join(dir, 'spill') }]) {
    const before = new Receiver({ units, clock, ...options })
    assert.equal(unitOf(before, frame(FULL, `${AID}.U.${token}|I>U.A:1|`)), 'A')
    assert.equal(unitOf(before, frame(DIFF, diff(3, 'U.A', '2'), SECONDS + 1)), 'A')
    before.save()
    const after = new Receiver({ units, clock, ...options })
    assert.equal(unitOf(after, frame(DIFF, diff(3, 'W.A', '3'), SECONDS + 2)), 'A')
    assert.equal(unitOf(after, frame(FULL, `${AID};${AID}.U.${token}|I>U.A:1|`, SECONDS + 3)), 'K', 'a class token')
    assert.equal(unitOf(after, frame(DIFF, diff(3, 'W.A', '3'), SECONDS + 4)), 'K')
    assert.equal(unitOf(after, frame(FULL, `${AID}.U.${token}|I>U.A:1|`, 1000 * SECONDS + 9000)), 'K')
  }
  rmSync(dir, { recursive: true })
})

test('a relayed packet of the firmware is still treated as one', () => {
  const token = Buffer.from(SECONDS.toString(16).padStart(12, '0'), 'hex').toString('base64url')
  const fusion = new Fusion(null, { units, clock, localId: 1 })
  fusion.relay(frame(FULL, `${AID}.U.${token}|I>U.A:1|`))
  const relayed = fusion.relay(frame(DIFF, diff(2, 'Z'), SECONDS + 1))
  assert.deepEqual(listener()(relayed).sensors, [sensor('I', 'A', 0.0061, 'U')])
})
