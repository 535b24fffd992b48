// Header, checksums and cipher of a frame: what is known of one that cannot be opened, and the reason (X26).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { frameTime, openFrame, plainFrame } from '../../../src/pipeline/receive'
import { deriveSessionKey, xorPayload } from '../../../src/wire/cipher'
import { crc8 } from '../../../src/wire/crc'
import { peerFrame } from '../../lib/peer'

const T0 = 1_710_000_000_000
const KEY = deriveSessionKey(42, T0)
const TEXT = Buffer.from('42;D.1.AAAAAAAA|a>K.K:1|')
const plain = (cmd = 0x3f, ts = T0): Buffer => peerFrame(cmd, [42], 1, ts, TEXT)
const secure = (cmd: number, body: Uint8Array = TEXT): Buffer =>
  peerFrame(cmd, [42], 1, T0, body, (bytes, sum) => xorPayload(bytes, KEY, sum))
const NOTHING = {
  cmd: null,
  base_cmd: null,
  secure: false,
  source_aid: null,
  crc16_ok: false,
  crc8_ok: null,
  timestamp_raw: null,
  tid: null,
  template_learned: false,
  server_stamped: false,
}
const HEAD = { ...NOTHING, cmd: 0x3f, base_cmd: 0x3f, source_aid: 42, crc16_ok: true }
const OPEN = { ...HEAD, timestamp_raw: T0, tid: '01', crc8_ok: false }

/** A key other than KEY whose CRC-8 matches that secure frame. */
function wrongKeyFor(bytes: Buffer): Uint8Array {
  for (let ts = 1; ; ts++) {
    const key = deriveSessionKey(42, ts)
    if (crc8(xorPayload(bytes.subarray(13, -3), key, bytes.at(-3)!)) === bytes.at(-3)) return key
  }
}

test('a frame that cannot be opened gives the reason, and what is known of it', () => {
  const broken = (at: number): Buffer => {
    const bytes = plain()
    bytes[at < 0 ? bytes.length + at : at]! ^= 1
    return bytes
  }
  // the CRC-16 is right, the CRC-8 is not
  const wrongSum = peerFrame(0x3f, [42], 1, T0, TEXT, bytes => Buffer.concat([bytes.subarray(1), Buffer.of(0)]))
  const cases: [string, Buffer, Uint8Array[] | null, object][] = [
    ['short', Buffer.alloc(4), null, { error: 'Packet too short', code: 'BAD_PACKET', meta: NOTHING }],
    [
      'a route longer than it',
      Buffer.concat([Buffer.of(0x3f, 200), Buffer.alloc(20)]),
      null,
      { error: 'Incomplete Binary Header', code: 'BAD_PACKET', meta: NOTHING },
    ],
    ['CRC-16', broken(-1), null, { error: 'CRC16 mismatch', code: 'BAD_PACKET', meta: { ...HEAD, crc16_ok: false } }],
    ['CRC-8', wrongSum, null, { error: 'CRC8 mismatch', code: 'BAD_PACKET', meta: OPEN }],
    [
      'no keys',
      secure(0x40),
      null,
      { error: 'Missing secure key for aid=42', code: 'NO_KEY', meta: { ...OPEN, cmd: 0x40, secure: true } },
    ],
    [
      'no key of this AID',
      secure(0x40),
      [],
      { error: 'Missing secure key for aid=42', code: 'NO_KEY', meta: { ...OPEN, cmd: 0x40, secure: true } },
    ],
    [
      'a wrong key',
      secure(0x40),
      [deriveSessionKey(42, 1)],
      { error: 'CRC8 mismatch', code: 'BAD_KEY', meta: { ...OPEN, cmd: 0x40, secure: true } },
    ],
  ]
  for (const [what, bytes, keys, want] of cases) {
    const { ok, header, ...got } = openFrame(bytes, T0 + 9, keys && (() => keys))
    assert.equal(ok, false, what)
    assert.deepEqual(got, want, what)
    assert.equal(header === null, (want as { meta: object }).meta === NOTHING, what)
  }
})

test('a frame that can be opened gives its body, its key and its time', () => {
  const open = (bytes: Buffer, keys: Uint8Array | Uint8Array[] | null = null) => {
    const got = openFrame(bytes, T0 + 9, () => keys)
    assert.ok(got.ok, JSON.stringify(got))
    return { text: Buffer.from(got.bytes.subarray(got.from, got.to)), key: got.key, meta: got.meta }
  }
  assert.deepEqual(open(plain()), { text: TEXT, key: null, meta: { ...OPEN, crc8_ok: true } })
  const stamped = { ...OPEN, crc8_ok: true, timestamp_raw: T0 + 9, server_stamped: true }
  assert.deepEqual(open(plain(0x3f, 0)).meta, stamped)
  for (const keys of [KEY, [KEY], [deriveSessionKey(42, 1), KEY]]) {
    const meta = { ...OPEN, cmd: 0x40, secure: true, crc8_ok: true }
    assert.deepEqual(open(secure(0x40), keys), { text: TEXT, key: KEY, meta })
  }
  const routed = peerFrame(0x3f, [7, 42], 1, T0, TEXT)
  assert.deepEqual(open(routed).meta.routes, [7, 42])
  assert.equal(open(plain()).meta.routes, undefined)
  const nobody = open(peerFrame(0x3f, [], 1, T0, TEXT)).meta
  assert.deepEqual([nobody.source_aid, nobody.routes], [0, undefined])
  // an empty body matches every key, and is opened with the first
  assert.equal(open(secure(0x80, Buffer.alloc(0)), [deriveSessionKey(42, 1), KEY]).text.length, 0)
  const full = secure(0x40)
  assert.equal(open(full, [wrongKeyFor(full), KEY]).key, KEY, 'a FULL is known by its text')
  const diff = secure(0xab, Buffer.from([2, 1, 0x35]))
  const wrong = wrongKeyFor(diff)
  const opened = openFrame(diff, T0, () => [wrong, KEY])
  assert.ok(opened.ok)
  assert.deepEqual(
    opened.candidates?.map(({ key }) => key),
    [wrong, KEY],
    'a DIFF has all',
  )
  const one = openFrame(diff, T0, () => [KEY, deriveSessionKey(42, 1)])
  assert.ok(one.ok && one.candidates === undefined)
})

test('the time of a frame: zero is stamped, below 1e11 it is seconds', () => {
  assert.deepEqual(
    [0, 1, 1e11 - 1, 1e11, T0].map(ts => frameTime(ts, 77)),
    [77, 1000, (1e11 - 1) * 1000, 1e11, T0],
  )
})

test('a plain data frame is complete, has one route, is not encrypted, and has both checksums right', () => {
  const is = (bytes: Uint8Array): boolean => plainFrame(bytes, 0, bytes.length)
  for (const cmd of [0x3f, 0xaa, 0x7f]) {
    assert.equal(is(plain(cmd)), true, cmd.toString(16))
    const inside = Buffer.concat([Buffer.alloc(3, 0x3f), plain(cmd), Buffer.alloc(2)])
    assert.equal(plainFrame(inside, 3, inside.length - 2), true, 'anywhere in a batch')
    for (let at = 0; at < plain(cmd).length; at++) {
      const bent = plain(cmd)
      bent[at]! ^= 1
      assert.equal(is(bent), false, `${cmd.toString(16)}, byte ${at}`)
    }
    assert.equal(is(plain(cmd).subarray(0, -1)), false)
  }
  assert.equal(is(peerFrame(0x7f, [42], 1, T0, Buffer.alloc(0))), true, 'the shortest')
  assert.equal(is(peerFrame(0x3f, [41, 42], 1, T0, TEXT)), false, 'two routes')
  assert.equal(is(secure(0x40)), false, 'encrypted')
  assert.equal(is(plain(0x09)), false, 'no data')
})
