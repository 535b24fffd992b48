// Encrypted frames: everything the encoder makes carries the same facts with a key; a receiver with several candidate
// keys uses the right one, or none, and never gives a wrong value (R10).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fact } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { type Received, Receiver } from '../../../src/pipeline/receiver'
import { KEY_REQUEST_TID, UplinkEncoder } from '../../../src/pipeline/sender'
import { deriveSessionKey, xorPayload } from '../../../src/wire/cipher'
import { baseCommand, isSecure } from '../../../src/wire/commands'
import { crc8 } from '../../../src/wire/crc'
import { ManualClock } from '../../lib/manual'
import { peerFrame } from '../../lib/peer'
import { random, units } from './units'

const T0 = 1_710_000_000_000
const KEY = deriveSessionKey(42, T0)

const fact = (k: number, values: (number | null)[], tRaw = T0 + k): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw,
  aid: 42,
  sensors: values.map((value, i) => ({ id: `s${i}`, status: value === null ? 'ERROR' : 'OK', unit: 'K', value })),
})
const encoder = (): UplinkEncoder =>
  new UplinkEncoder({ aid: 42, units, clock: new ManualClock(), fullEvery: 10, diffBase: 'last' })

test("with a key the packets are the same as without, only encrypted: every kind, the backlog, frames into the caller's buffer", () => {
  const next = random(1)
  const plain = encoder()
  const secret = encoder()
  const into = encoder()
  const receiver = new Receiver({ units, inboundKey: () => KEY })
  const memory = new Uint8Array(400)
  const seen = new Set<number>()
  let values: (number | null)[] = [280, 290]
  for (let k = 0; k < 300; k++) {
    if (next() < 0.6) values = [Math.round(next() * 1e6) / 1e4, next() < 0.1 ? null : 5]
    // sometimes one that is older than the ones before
    const one = fact(k, values, next() < 0.1 ? T0 - k : T0 + k)
    const a = plain.encode(one)
    const b = secret.encode(one, {}, KEY)
    assert.equal(b.cmd, a.cmd + 1)
    assert.equal(b.size, a.size)
    assert.equal(b.bytes[b.size - 3], a.bytes[a.size - 3], 'the CRC-8 is that of the plain body')
    if (a.size > 16) assert.notDeepEqual(b.bytes.subarray(13, -3), a.bytes.subarray(13, -3))
    assert.deepEqual(Buffer.from(memory.subarray(0, into.encodeInto(one, memory, 0, {}, KEY))), b.bytes)
    seen.add(b.cmd)
    const got = receiver.receive(b.bytes)
    assert.ok(got.kind === 'fact')
    assert.deepEqual(got.fact, one)
    assert.equal(got.key, b.size > 16 ? KEY : null, 'an empty body proves no key')
  }
  assert.deepEqual(
    [...seen].sort((a, b) => a - b),
    [0x40, 0x80, 0xab],
  )
  const again = secret.encodeFull(fact(5, [1, 2]), undefined, KEY)
  assert.ok(again.cmd === 0x40 && again.tid >= 200)
  assert.equal(secret.encodeFull(fact(6, []), KEY_REQUEST_TID).cmd, 0x3f)
  assert.equal(KEY_REQUEST_TID, 255, 'a TID that no template gets')
})

/** Wrong keys whose CRC-8 matches that frame. */
function* fitting(bytes: Buffer, from = 1): Generator<Buffer> {
  for (let ts = from; ; ts++) {
    const key = deriveSessionKey(42, ts)
    const off = bytes.at(-3)! & 31
    const body = bytes.subarray(13, -3).map((byte, i) => byte ^ key[(i + off) % 32]! ^ off)
    if (crc8(body) === bytes.at(-3)) yield key
  }
}

test('of several keys the right one is used in any position, and none when it is missing', () => {
  const others = [deriveSessionKey(42, 1), deriveSessionKey(42, 2)]
  const full = encoder().encode(fact(0, [1, 2]), {}, KEY).bytes
  for (const keys of [
    [KEY, ...others],
    [others[0]!, KEY, others[1]!],
    [...others, KEY],
  ]) {
    const got = new Receiver({ units, inboundKey: () => keys }).receive(full)
    assert.ok(got.kind === 'fact' && got.key === KEY)
  }
  const code = (keys: readonly Uint8Array[]): string => {
    const got = new Receiver({ units, inboundKey: () => keys }).receive(full)
    return got.kind === 'error' ? got.code : got.kind
  }
  assert.equal(code(others), 'BAD_KEY')
  assert.equal(code([]), 'NO_KEY')
})

/** The wrong key that decrypts that secure frame to `body`; the CRC-8 of both bodies is the same. */
function keyTo(body: Uint8Array, frame: Buffer): Buffer {
  const off = frame.at(-3)! & 31
  const key = Buffer.alloc(32, 1)
  body.forEach((byte, i) => {
    key[(off + i) % 32] = frame[13 + i]! ^ off ^ byte
  })
  return key
}

test('with a wrong key matching the CRC-8 before the right one, a FULL is recognized by its text, a DIFF by its template', () => {
  const [sender, plain] = [encoder(), encoder()]
  const full = sender.encode(fact(0, [1, 2]), {}, KEY).bytes
  plain.encode(fact(0, [1, 2]))
  const diff = sender.encode(fact(1, [3, 4]), {}, KEY).bytes
  const body = plain.encode(fact(1, [3, 4])).bytes.subarray(13, -3)
  const heart = sender.encode(fact(2, [3, 4]), {}, KEY).bytes
  assert.equal(baseCommand(diff[0]!), 0xaa)
  const wrongFull = fitting(full).next().value as Buffer
  const got = new Receiver({ units, inboundKey: () => [wrongFull, KEY] }).receive(full)
  assert.ok(got.kind === 'fact' && got.key === KEY)
  const wrongDiff = fitting(diff).next().value as Buffer
  const receiver = new Receiver({ units, inboundKey: () => [wrongDiff, KEY] })
  receiver.receive(full)
  const read = receiver.receive(diff)
  assert.ok(read.kind === 'fact' && read.key === KEY)
  assert.deepEqual(read.fact, fact(1, [3, 4]))
  assert.equal(receiver.receive(heart).kind, 'fact')

  const late = new Receiver({ units, inboundKey: () => [wrongDiff, KEY] })
  late.receive(full)
  late.receive(sender.encode(fact(9, [5, 6]), {}, KEY).bytes)
  const behind = late.receive(diff)
  assert.ok(behind.kind === 'fact' && behind.meta.late)
  assert.deepEqual(behind.fact, fact(1, [3, 4]))

  const noise = [1, 1e6].map(from => fitting(diff, from).next().value as Buffer)
  const lost = new Receiver({ units, inboundKey: () => noise })
  lost.receive(full)
  const refused = lost.receive(diff)
  assert.ok(refused.kind === 'error' && refused.code === 'NEED_FULL')

  // another value whose body has the same checksum
  const digits = Buffer.from('0123456789abcdefghijklmnopqrstuvwxyz')
  const other = [...digits]
    .flatMap(a => [...digits].map(b => Buffer.concat([body.subarray(0, -2), Buffer.of(a, b)])))
    .find(bytes => crc8(bytes) === crc8(body) && !bytes.equals(body))!
  const both = new Receiver({ units, inboundKey: () => [keyTo(other, diff), KEY] })
  both.receive(full)
  const unsure = both.receive(diff)
  assert.ok(unsure.kind === 'error' && unsure.code === 'NEED_FULL' && unsure.needFull)
  assert.equal(unsure.message, 'More than one key fits')
})

test('keys that change during transmission, old ones still tried first: every value is decoded as it was sent', () => {
  const next = random(9)
  for (let round = 0; round < 3000; round++) {
    const keys = [1, 2, 3].map(k => deriveSessionKey(42, T0 + round * 10 + k))
    const sender = encoder()
    const receiver = new Receiver({ units, inboundKey: () => keys })
    const key = keys[(next() * 3) | 0]!
    for (let k = 0; k < 4; k++) {
      const one = fact(k, [Math.round(next() * 1e6) / 1e4])
      const { bytes, cmd } = sender.encode(one, {}, key)
      assert.ok(isSecure(cmd))
      const got = receiver.receive(bytes)
      assert.ok(got.kind === 'fact', `round ${round}`)
      assert.deepEqual(got.fact, one)
    }
  }
})

test('a FULL under a lost key is requested again, also where a wrong key matches its checksum', () => {
  const bytes = encoder().encode(fact(0, [1, 2]), {}, KEY).bytes
  const [wrong] = fitting(bytes)
  const got = new Receiver({ units, inboundKey: () => wrong! }).receive(bytes)
  assert.equal(got.kind === 'error' && got.code, 'BAD_KEY', 'as a broken packet it would be acknowledged, and lost')
})

const secret = (cmd: number, k: number, body: Buffer): Buffer =>
  peerFrame(cmd, [42], 1, T0 + k, body, (plain, sum) => xorPayload(plain, KEY, sum))

test('a secure DIFF that looks like noise is refused: mask bits without a slot, a status and unit no text could have', () => {
  const receiver = new Receiver({ units, inboundKey: () => KEY })
  assert.equal(receiver.receive(encoder().encode(fact(0, [1]), {}, KEY).bytes).kind, 'fact')
  const diff = (k: number, body: Buffer): Received => receiver.receive(secret(0xab, k, body))
  const noise = [
    Buffer.from([1, 3, 0x4b, 0x2e, 0x07]), // K.<bell>
    Buffer.from([1, 4, 0x4b, 0x2e, 0xc3, 0x28]), // no UTF-8
    Buffer.from('\x01\x04K.K|'),
    Buffer.from('\x01\x02KK'),
    Buffer.from('\x12\x01a'), // bit 4 of two slots
  ]
  const fusion = new Fusion(null, { units, unitDialect: 'ucum', registryDir: null, localId: 1 })
  assert.equal(fusion.decompress(encoder().encode(fact(0, [1]), {}, KEY).bytes, KEY).error, undefined)
  for (const [k, body] of noise.entries()) {
    const got = diff(k + 1, body)
    assert.equal(got.kind === 'error' && got.code, 'NEED_FULL', body.toString('latin1'))
    assert.match(String(fusion.decompress(secret(0xab, k + 1, body), KEY).error), /does not fit/)
  }
  const good = Buffer.from('\x03\x03K.A\x01a')
  assert.equal(diff(9, good).kind, 'fact')
  assert.equal(fusion.decompress(secret(0xab, 9, good), KEY).s1_v, 0.001)
})

test('noise that happens to look like a firmware body is not decoded as a sensor', () => {
  const receiver = new Receiver({ units, inboundKey: () => KEY })
  const fusion = new Fusion(null, { units, unitDialect: 'ucum', registryDir: null, localId: 1 })
  const full = (body: Buffer): Received => receiver.receive(secret(0x40, 0, body))
  for (const body of [Buffer.from('\x07T|K|1A'), Buffer.from([0x54, 0x7c, 0xff, 0x7c, 0x31])]) {
    const got = full(body)
    assert.equal(got.kind === 'error' && got.code, 'BAD_KEY', 'another key is requested from its sender')
    assert.equal(fusion.decompress(secret(0x40, 0, body), KEY).error, 'CRC8 mismatch')
  }
  assert.equal(full(Buffer.from('T|K|1A')).kind, 'fact')
})

test('two hundred thousand DIFFs under a key that no receiver has: none is decoded to a value', () => {
  const next = random(31)
  let fitted = 0
  for (let round = 0; round < 200; round++) {
    const held = deriveSessionKey(42, T0 + round)
    const used = deriveSessionKey(42, T0 + 500_000 + round)
    const count = 1 + (round % 9)
    const values = Array.from({ length: count }, () => Math.round(next() * 1e5) / 100)
    const sender = encoder()
    let k = 0
    const receiver = new Receiver({ units, inboundKey: () => held })
    // both uplinks of one AID sent the template: each under its own key, the receiver knows one
    assert.equal(receiver.receive(encoder().encode(fact(k, values), {}, held).bytes).kind, 'fact')
    sender.encode(fact(k, values), {}, used)
    for (let n = 0; n < 1000; n++) {
      values[(next() * count) | 0] = Math.round(next() * 1e5) / 100
      const { bytes, cmd } = sender.encode(fact(++k, values), {}, used)
      const got = receiver.receive(bytes)
      if (baseCommand(cmd) === 0x7f) continue // nothing in it to decrypt
      assert.equal(got.kind, 'error', `round ${round}, frame ${n}: ${JSON.stringify(got)}`)
      if (got.kind === 'error' && got.code === 'NEED_FULL') fitted++
    }
  }
  assert.ok(fitted > 400, `${fitted} agreed with the checksum`)
})

test('in a run nothing builds on the state before a refused frame, though the sender counts it as received', () => {
  const next = random(9)
  const others = Array.from({ length: 6 }, (_, k) => deriveSessionKey(42, T0 + 1 + k))
  let keys = [KEY, ...others]
  const receiver = new Receiver({ units, inboundKey: () => keys })
  const sender = encoder()
  const refused = new Map<string, number>()
  let nackAt = 0
  let [a, b] = [280, 290]
  let taken = 0
  for (let k = 1; k <= 20_000; k++) {
    if (next() < 0.4) a = Math.round(next() * 1e4) / 10
    if (next() < 0.2) b = Math.round(next() * 1e4) / 10
    // several keys are candidates, and more than one may match; sometimes the right one is not known yet
    if (k % 500 === 0) keys = others
    if (k % 500 === 20) keys = [KEY, ...others]
    // the sender learns of a refusal some frames later
    if (k === nackAt) sender.keyFrameNext()
    const { bytes, cmd } = sender.encode(fact(k, [a, b]), {}, KEY)
    const got = receiver.receive(bytes, 7)
    if (got.kind === 'fact') {
      taken++
      assert.deepEqual(got.fact, fact(k, [a, b]), `frame ${k}`)
    } else {
      const what = `${got.code} ${baseCommand(cmd)}`
      refused.set(what, (refused.get(what) ?? 0) + 1)
      if (nackAt <= k) nackAt = k + 5
    }
  }
  assert.ok(taken > 15_000, `${taken} taken`)
  const kinds = [...refused.keys()]
  for (const kind of ['BAD_KEY 170', 'BAD_KEY 63', 'NEED_FULL 170', 'NEED_FULL 127'])
    assert.ok(kinds.includes(kind), `${kind}: ${kinds.join(', ')}`)
})
