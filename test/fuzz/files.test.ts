// Files and lines that a crash, a bad flash or an editor may have changed: they are read, or refused by name.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultText } from '../../src/config/default-text'
import { parseDocument } from '../../src/config/document'
import { interpret } from '../../src/config/read'
import { baseSchema, type Schema } from '../../src/config/schema'
import { checkRecord, decodeRecord } from '../../src/log/decode'
import { RecordEncoder } from '../../src/log/encode'
import { decodeHeader, encodeHeader, findRecord } from '../../src/log/segment'
import type { Fact } from '../../src/pipeline/fact'
import { Fusion } from '../../src/pipeline/fuse'
import { Receiver } from '../../src/pipeline/receiver'
import { IdAllocator } from '../../src/protocol/ids/allocator'
import { FileIdStore } from '../../src/protocol/ids/id-store'
import { SecureSessions } from '../../src/protocol/secure/sessions'
import { wireUnits } from '../../src/units/wire'
import { crc32c } from '../../src/wire/crc'
import { sealFrame, writeHeader } from '../../src/wire/frame'
import { ManualClock } from '../lib/manual'
import { MemFiles } from '../unit/log/memfiles'
import { fuzz } from './harness'
import { type Random, repeated } from './mutate'

const clock = new ManualClock()
const units = wireUnits()
const T0 = 1_710_000_000_000

function put(files: MemFiles, path: string, bytes: Uint8Array): void {
  const fd = files.open(path, 'w')
  files.write(fd, bytes)
  files.close(fd)
}

// ---- the template registry: one file of an AID, and the mark of a clean stop

const heart = Buffer.alloc(16)
sealFrame(heart, 0, writeHeader(heart, 0, 0x7f, 42, 1, T0 + 9), 13)
const mark = Buffer.from(`{"templates":{"42":{"01":${T0}}}}`)
const registryFile = (sig: string, slots: readonly string[]): Buffer =>
  Buffer.from(
    JSON.stringify({
      aid: '42',
      templates: { '01': { sig, last_vals_bin: slots.map(slot => Buffer.from(slot).toString('base64')) } },
    }),
  )

fuzz({
  name: 'registry',
  inputs: 5000,
  seeds: [
    registryFile('D.1.{TS}|a>\x01:\x01|', ['K.K', '1']),
    registryFile('D.1.{TS}|a>\x01:\x01|b>\x01:\x01|&u33|#YQ|@aGk|', ['K.K', '1', 'E.Z', '0']),
    registryFile('D.1.{TS}|', []),
  ],
  words: [
    '\\u0001:\\u0001|',
    '{TS}',
    '"sig":',
    '"01":',
    '"255":',
    '"-1":',
    '"__proto__":',
    'null',
    '[]',
    '|',
    '.',
    '"QQ=="',
  ],
  run(input) {
    const files = new MemFiles()
    const options = { registryDir: '/r', files, clock, units }
    const fusion = new Fusion(null, { ...options, localId: 42 })
    const path = fusion.registry!.path(42)
    put(files, path, input)
    put(files, '/r/clean-stop.json', mark)
    const sent = fusion.sendStore(42).all().length
    fusion.runEngine('42;D.1.AY4j8UwA|a>K.K:2|')
    fusion.stop()
    put(files, path, input)
    put(files, '/r/clean-stop.json', mark)
    const receiver = new Receiver(options)
    const got = receiver.receive(heart)
    if (got.kind === 'fact')
      for (const { value } of got.fact.sensors)
        assert.ok(value === null || Number.isFinite(value), 'a value that is none')
    receiver.save()
    put(files, path, input)
    put(files, '/r/clean-stop.json', mark)
    const heard = new Fusion(null, { ...options, localId: 1 }).decompress(heart)
    put(files, '/r/clean-stop.json', input)
    new Receiver(options).receive(heart)
    return `${sent}${got.kind}${got.kind === 'error' ? got.code : ''}${heard.error === undefined}`
  },
  growing: {
    'of templates': n =>
      Buffer.from(
        `{"templates":{${Array.from({ length: n >> 6 }, (_, k) => `"${k}":{"sig":"D.1.{TS}|","last_vals_bin":[]}`)}}}`,
      ),
    'of a signature': n => registryFile(`D.1.{TS}|${'a>\x01:\x01|'.repeat(n / 20)}`, []),
    'of nesting': n => Buffer.from('['.repeat(n)),
  },
})

// ---- the allocator's file and its journal

const record = {
  meta: { device_id: 'a' },
  ts: 1,
  last_seen: 1,
  lease_expires_at: 9e9,
  device_key: 'device_id:a',
  state: 'active',
  offline_since: 0,
}
const line = (change: unknown): string => {
  const json = JSON.stringify(change)
  return `${crc32c(Buffer.from(json)).toString(16).padStart(8, '0')} ${json}\n`
}
const journal = Buffer.from(
  [{ set: 5, record }, { free: 1 }, { touch: 5, last_seen: 2, lease_expires_at: 3, addr: 'x' }].map(line).join(''),
)

/** Correct checksums on every line. */
const sealed = (input: Buffer): Buffer =>
  Buffer.from(
    input
      .toString('latin1')
      .split('\n')
      .map(text => {
        const json = Buffer.from(text.slice(9), 'latin1')
        return text.length < 10 ? text : `${crc32c(json).toString(16).padStart(8, '0')} ${json.toString('latin1')}`
      })
      .join('\n'),
    'latin1',
  )

fuzz({
  name: 'ids',
  inputs: 8000,
  allowed: ['STORAGE', 'ID_POOL_EXHAUSTED'],
  seeds: [
    Buffer.from(
      JSON.stringify({
        allocated: { 1: record, 2: { ...record, device_key: '' } },
        released: [3, 4],
        next_candidate: 9,
      }),
    ),
    Buffer.from('{"allocated":{},"released":[],"next_candidate":1,"lease_metrics":{"total_reclaimed":7}}'),
    journal,
  ],
  words: [
    '"allocated":',
    '"released":[',
    '"next_candidate":',
    '4294967295',
    '4294967296',
    '0',
    '"__proto__"',
    '{"set":',
    '{"free":',
    '\n',
  ],
  shape: (input, random) => (input[8] === 0x20 && random.chance(0.9) ? sealed(input) : input),
  run(input) {
    const files = new MemFiles()
    const isJournal = input[8] === 0x20
    put(files, isJournal ? '/i/ids.json.journal' : '/i/ids.json', input)
    const open = (): IdAllocator =>
      new IdAllocator(
        { endId: 60_000 },
        { store: new FileIdStore('/i/ids.json', files), now: () => 1_710_000_000, mono: () => 0 },
      )
    const allocator = open()
    const before = new Set(Object.keys((allocator.dump() as { allocated: object }).allocated))
    const ids = [allocator.allocateId({ device_id: 'new' }), ...allocator.allocatePool(3)]
    assert.equal(new Set(ids).size, ids.length, 'one id twice')
    for (const id of ids) {
      assert.ok(Number.isInteger(id) && id >= 1 && id <= 60_000, `${id} is no id`)
      assert.ok(!before.has(String(id)), `${id} belongs to somebody`)
    }
    // the next run knows all assigned ids, with the checkpoint and without; commit() writes before it waits for the disk
    allocator.commit().catch(() => undefined)
    for (const id of ids) assert.ok(open().isAllocated(id), `${id} was forgotten`)
    allocator.stop()
    for (const id of ids) assert.ok(open().isAllocated(id), `${id} was forgotten by the checkpoint`)
    return `${isJournal}${Math.min(before.size, 4)}${ids[0]! > 9}`
  },
  growing: {
    'of records': n =>
      Buffer.from(`{"allocated":{${Array.from({ length: n >> 4 }, (_, k) => `"${k + 1}":{"ts":1}`)}}}`),
    'of freed ids': n =>
      Buffer.from(`{"allocated":{},"released":[${Array.from({ length: n >> 3 }, (_, k) => 60_000 - k)}]}`),
    'of lines': n => sealed(Buffer.from(`00000000 {"free":1}\n`.repeat(n / 20))),
    'of lines without checksum': n => Buffer.concat([journal, repeated('x\n', n)]),
  },
})

// ---- the file of the secure sessions

const session = {
  last: 1_710_000_000,
  peer_addr: '192.0.2.1:1',
  first_plaintext_ts: 1_710_000_000_000,
  pending_timestamp: null,
  pending_key_hex: null,
  key_hex: 'ab'.repeat(32),
  dict_ready: true,
  decrypt_confirmed: true,
  state: 'SECURE',
}
const MOST_SESSIONS = 20

fuzz({
  name: 'sessions',
  inputs: 8000,
  seeds: [
    { 42: session, 7: { ...session, key_hex: null, state: 'DICT_READY', decrypt_confirmed: false } },
    { 5: { ...session, pending_timestamp: 1, pending_key_hex: 'cd'.repeat(32), key_hex: null, dict_ready: false } },
    {},
  ].map(sessions => Buffer.from(JSON.stringify({ updated_at: 1_710_000_000, sessions }))),
  words: [
    '"sessions":',
    '"key_hex":',
    '"last":',
    '"__proto__":',
    '"4294967296":',
    '"42":',
    'null',
    'ab'.repeat(32),
    '1e999',
  ],
  run(input) {
    const files = new MemFiles()
    put(files, '/s/sessions.json', input)
    const problems: string[] = []
    const open = (): SecureSessions =>
      new SecureSessions({
        storePath: '/s/sessions.json',
        files,
        now: () => 1_710_000_100,
        maxSessions: MOST_SESSIONS,
        onProblem: problem => problems.push(problem),
      })
    const sessions = open()
    assert.ok(sessions.size <= MOST_SESSIONS)
    const key = sessions.getSessionKey(42)
    assert.ok(key === null || key.length === 32)
    sessions.noteLocalPlaintextSent(9, 1_710_000_000_000)
    sessions.confirmSecureDict(9, 1_710_000_000_000)
    const own = sessions.getSessionKey(9)
    sessions.save(true)
    assert.deepEqual(open().getSessionKey(9), own, 'a key was forgotten')
    assert.equal(Object.getPrototypeOf({}).last, undefined)
    return `${Math.min(sessions.size, 4)}${key === null}${problems.length}`
  },
  growing: {
    'of sessions': n =>
      Buffer.from(`{"sessions":{${Array.from({ length: n >> 5 }, (_, k) => `"${k}":{"last":1710000000}`)}}}`),
    'of nesting': n => Buffer.from('{"sessions":{"1":'.repeat(n / 17)),
  },
})

// ---- Config.json

fuzz({
  name: 'config',
  inputs: 1500,
  allowed: ['CONFIG_SYNTAX', 'CONFIG_INVALID'],
  seeds: [
    Buffer.from(defaultText()),
    readFileSync(join(process.env.OS_NODE_TEST_ROOT ?? '.', 'Config.json')),
    Buffer.from('{"gateway": {"uplinks": [{"medium": "UDP", "host": "h", "port": 1}], "sources": []}, // x\n}'),
    Buffer.from('{"OpenSynaptic_Setting": {"default_medium": "UDP"}, "security_settings": {"id_lease": {}}}'),
  ],
  words: [
    '"__proto__":',
    '"constructor":',
    '/*',
    '*/',
    '//',
    ',',
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\u0000',
    '1e999',
    '\ufeff',
    'null',
    '"gateway":',
  ],
  run(input) {
    const { warnings, config } = interpret(baseSchema as unknown as Schema, parseDocument('Config.json', input))
    assert.equal(Object.getPrototypeOf({}).x, undefined)
    assert.ok(config.engine_settings.precision >= 0)
    return `${Math.min(9, warnings.length)}`
  },
  growing: {
    'of nesting': n => Buffer.from(`{"a":${'['.repeat(n / 2 - 4)}${']'.repeat(n / 2 - 4)}}`),
    'of open objects': n => Buffer.from('{"a":'.repeat(n / 5)),
    'of keys': n => Buffer.from(`{${Array.from({ length: n >> 4 }, (_, k) => `"k${k}":1`).join()}}`),
    'of one key': n => Buffer.from(`{${'"k":1,'.repeat(n / 6)}"k":1}`),
    'of comments': n => repeated('/*x*/', n),
    'of lines': n => Buffer.from(`{${'\n'.repeat(n)}x`),
    'of uplinks': n => Buffer.from(`{"gateway":{"uplinks":[${'{},'.repeat(n / 3)}{}]}}`),
  },
})

// ---- records of the log, read from a damaged flash

const fact: Fact = {
  id: 'D',
  state: 'ONLINE',
  tRaw: T0,
  aid: 7,
  sensors: [
    { id: 'a', status: 'OK', unit: 'K', value: 1.5 },
    { id: 'b', status: 'ERROR', unit: 'Pa', value: null },
  ],
  extras: { msg: 'hi' },
}
const records = new RecordEncoder(3)
const written = (write: (into: Buffer) => number): Buffer => {
  const into = Buffer.alloc(512)
  return into.subarray(0, write(into))
}

/** A record with correct length and CRC, whatever its body contains. */
function sealedRecord(input: Buffer, random: Random): Buffer {
  if (input.length < 40 || input[0] !== 0xc5) return input
  const out = Buffer.from(input)
  out.writeUIntLE(out.length, 1, 3)
  out[16] = random.below(6)
  out.writeUInt32LE(crc32c(out, 0, out.length - 4), out.length - 4)
  return out
}

fuzz({
  name: 'log',
  allowed: ['STORAGE'],
  shape: sealedRecord,
  seeds: [
    written(b =>
      records
        .at(b, 0, 9, 1, T0, 'synced')
        .fact(fact, { medium: 'UDP', address: '192.0.2.1:1', rssi: -70, route: [5, 7] }),
    ),
    written(b => records.at(b, 0, 1, 1, T0, 'unknown').bootRecord({ stop: true, version: '1' })),
    written(b => records.at(b, 0, 2, 1, T0, 'synced').clock({ trueWallMs: T0, offsetMs: 5, source: 's' })),
    written(b => records.at(b, 0, 3, 1, T0, 'synced').cursor('uplink', 77)),
    encodeHeader({ boot: 3, base: 1, previousLast: 0, created: T0, snapshot: {} as never }),
  ],
  words: [Uint8Array.of(0xc5), Uint8Array.of(0xc5, 0x24, 0, 0)],
  run(input) {
    let outcome = decodeHeader(input) ? 'header' : ''
    const at = findRecord(input, 0, 0, Number.MAX_SAFE_INTEGER)
    if (at >= 0) {
      assert.ok(checkRecord(input, at) > 0)
      const { kind, fact } = decodeRecord(input, at)
      outcome += kind + Math.min(fact?.sensors.length ?? 0, 4)
    }
    return outcome
  },
  growing: {
    'of marks': n => repeated('\xc5', n),
    'of marks with a length': n => Buffer.alloc(n, Buffer.of(0xc5, 0xff, 0xff, 0)),
  },
})
