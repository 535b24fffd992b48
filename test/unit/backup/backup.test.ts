// A backup file: which files it contains and which it leaves out, beside a log that is written meanwhile too; and what an
// allocator restored from it assigns.
import assert from 'node:assert/strict'
import fs, { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { writeBackup } from '../../../src/backup/backup'
import { BackupWriter } from '../../../src/backup/format'
import { forgetOldState, isUnfinished } from '../../../src/backup/restore-progress'
import { realFiles } from '../../../src/lib/files'
import { FlashLog, verify } from '../../../src/log'
import { scanSegment } from '../../../src/log/segment'
import { IdAllocator } from '../../../src/protocol/ids/allocator'
import { FileIdStore } from '../../../src/protocol/ids/id-store'
import { factOf, LOCAL } from '../log/helpers'
import { CONFIG, PASSPHRASE, put, SECRET, STATE, stateOf, world } from './world'

const COPIES: Record<string, string> = {
  'Config.json.bak': 'bak-secret',
  'Config.json.bak2': 'bak2-secret',
  'Config.json~': 'editor-secret',
  '.Config.json.swp': 'swap-secret',
}
const SESSIONS: Record<string, string> = { 'keys/s.json': 'session-received', 'keys/s.own.json': 'session-own' }
const NAMED: Record<string, string> = {
  'db-password': 'sql-secret',
  'keys/sql': 'sql-key',
  'keys/up': 'uplink-key',
  'keys/up-cert': 'uplink-cert-and-key',
  'keys/psk': 'psk-secret',
}

test('a backup without secrets holds the state and no secret; the old state stays until the new one has started', async t => {
  const { dataDir, file, write, target, restore } = world(t)
  const before = stateOf(dataDir)
  const result = await write()
  assert.deepEqual(stateOf(dataDir), before, 'the data directory was only read')
  assert.deepEqual(
    [result.files, result.secrets, result.left_out],
    [Object.keys(STATE).length + 1, false, ['password']],
  )
  for (const text of ['hush', 'token-hash', 'session-key', 'private'])
    assert.ok(!readFileSync(file).includes(text), text)
  await assert.rejects(write(), { code: 'USAGE', message: /already exists/ })
  await write(undefined, true)

  const { old_state, secrets_restored, device_id, assigned_id } = restore()
  assert.deepEqual([device_id, assigned_id, secrets_restored], ['GW1', 7, false])
  const mark = JSON.stringify({ restored_at: 5, created: 1000 })
  const { 'data/restore/plan.json': _plan, ...now } = stateOf(target)
  assert.deepEqual(now, {
    'Config.json': '{}',
    ...Object.fromEntries(Object.entries(STATE).map(([path, text]) => [`data/${path}`, text])),
    'data/restored.json': mark,
    'data/upstream/restored.json': mark,
    'data/os-node.lock': 'mine',
    'data/restore/old-1/Config.json': '{"old":1}',
    'data/restore/old-1/data/log/0000000000000009.seg': 'old',
  })
  assert.equal(old_state, join(target, 'data/restore/old-1'))
  assert.equal(isUnfinished(join(target, 'data')), false)
  const said: string[] = []
  forgetOldState(join(target, 'data'), { info: text => said.push(text), warn: text => said.push(text) })
  assert.match(said.join(), /the restored state has started; the old one was removed/)
  assert.ok(!realFiles.exists(join(target, 'data/restore')))
})

test('of a log that is written meanwhile a backup has every record up to its begin, and nothing half', async t => {
  const { dir, target, restore } = world(t)
  const dataDir = join(dir, 'running')
  const log = await FlashLog.open({ dir: join(dataDir, 'log'), commitIntervalMs: 5, ackCommitMs: 2 })
  const append = async (): Promise<void> => {
    log.appendFact(factOf(log.lastSeq), LOCAL)
    await log.flush()
  }
  /** last byte of the newest record */
  const lastByte = (): number => {
    const bytes = readFileSync(join(dataDir, 'log/0000000000000001.seg'))
    return bytes[scanSegment(bytes, { base: 1 }).sound.at(-1)! - 1]!
  }
  const about = { version: '1', created: 1, device_id: 'GW1', assigned_id: 7 }
  // the second time the newest record's checksum ends with zeros
  for (let round = 0; round < 2; round++) {
    do await append()
    while (round > 0 && lastByte() !== 0)
    const records = log.status().records
    const parts: Uint8Array[] = []
    const place = { path: join(dir, 'Config.json'), baseDir: dir, settings: {} }
    await writeBackup({ dataDir, config: CONFIG, place, about }, async bytes => {
      if (parts.push(bytes) === 1) for (let k = 0; k < 20; k++) await append()
    })
    const file = join(dir, 'running.backup')
    writeFileSync(file, Buffer.concat(parts))
    restore(undefined, file)
    const { ok, records: restored, torn_bytes } = verify(join(target, 'data/log'))
    assert.deepEqual([ok, restored, torn_bytes], [true, records, 0], `${round}`)
  }
  await log.close()
})

test('a journal of any size is restored, also from a backup that has it as one piece', async t => {
  const { dataDir, file, target, write, restore } = world(t)
  const lines = 'a line of the journal\n'.repeat(150_000)
  put(dataDir, { 'id_allocation.json.journal': lines })
  await write()
  restore()
  const journal = join(target, 'data/id_allocation.json.journal')
  assert.equal(readFileSync(journal, 'utf8'), lines)
  rmSync(join(target, 'data/id_allocation.json.journal'))

  const parts: Uint8Array[] = []
  const writer = new BackupWriter(async bytes => void parts.push(bytes))
  await writer.begin({
    version: '1.2.3',
    created: 1000,
    device_id: 'GW1',
    assigned_id: 7,
    secrets: false,
    left_out: [],
  })
  await writer.file('data/id_allocation.json.journal', [Buffer.from(lines)])
  await writer.end()
  writeFileSync(file, Buffer.concat(parts))
  restore()
  assert.equal(readFileSync(journal, 'utf8'), lines)
})

test('a backup that cannot be read again as it was written gets no name', async t => {
  const { dir, write } = world(t)
  const sync = fs.fdatasyncSync
  t.mock.method(fs, 'fdatasyncSync', (fd: number) => {
    sync(fd)
    fs.writeSync(fd, 'x', 40)
  })
  await assert.rejects(write(), { code: 'E_BACKUP' })
  assert.deepEqual(
    realFiles.list(dir).filter(name => name.startsWith('x.backup')),
    [],
  )
})

test('segments that the log drops while they are opened leave no hole', async t => {
  const { dataDir, target, write, restore } = world(t)
  const segments = [1, 2, 3, 4].map(k => `log/000000000000010${k}.seg`)
  put(dataDir, Object.fromEntries(segments.map(path => [path, path])))
  const open = fs.openSync
  t.mock.method(fs, 'openSync', (path: string, ...rest: [number, number]) => {
    const fd = open(path, ...rest)
    // a gateway in another process drops the two oldest behind the first that is opened
    if (path.includes('000010')) for (const old of segments.splice(0, 2)) rmSync(join(dataDir, old), { force: true })
    return fd
  })
  segments.splice(2)
  await write()
  t.mock.restoreAll()
  restore()
  const names = realFiles.list(join(target, 'data/log')).filter(name => name.includes('000010'))
  assert.deepEqual(names.sort(), ['0000000000000103.seg', '0000000000000104.seg'])
})

test('secrets are sealed: they open only with the passphrase, and without it everything else is restored', async t => {
  const { file, write, target, restore } = world(t)
  await write(PASSPHRASE)
  for (const text of ['hush', 'token-hash', 'private']) assert.ok(!readFileSync(file).includes(text), text)
  const before = stateOf(target)
  assert.throws(() => restore('another passphrase'), { code: 'E_PASSPHRASE', message: /nothing was changed/ })
  assert.deepEqual(stateOf(target), before)
  assert.equal(restore().secrets_restored, false)
  assert.equal(stateOf(target)['Config.json'], '{}')
  assert.equal(restore(PASSPHRASE).secrets_restored, true)
  const now = stateOf(target)
  assert.equal(now['Config.json'], CONFIG.whole)
  for (const [path, text] of Object.entries(SECRET)) assert.equal(now[`data/${path}`], text)
  assert.ok(
    now['data/restore/old-1/data/log/0000000000000009.seg'],
    'the state that ran stays beside one that never did',
  )
})

test('no copy of Config.json and no session key is in a backup, and files that the configuration names as secrets are sealed', async t => {
  const { dir, dataDir, file, write, target, restore } = world(t)
  put(dataDir, { ...COPIES, ...SESSIONS, ...NAMED, 'keys/ca': 'authority' })
  symlinkSync(join(dataDir, 'keys/psk'), join(dataDir, 'linked'))
  symlinkSync(dataDir, join(dir, 'other-name'))
  const settings = {
    security_settings: { secure_session_store: 'data/keys/s.json' },
    storage: { sql: { driver: { password_file: 'db-password', tls_key: 'keys/sql', tls_ca: 'keys/ca' } } },
    gateway: {
      uplinks: [
        { tls: { key: join(dataDir, 'keys/up'), cert: join(dir, 'other-name/keys/up-cert'), ca: 'data/keys/ca' } },
      ],
      sources: [{ credentials: { files: ['data/keys/psk', 'not-there'] } }],
    },
  }
  const hidden = [COPIES, SESSIONS, NAMED].flatMap(files => Object.values(files))
  for (const passphrase of [undefined, PASSPHRASE]) {
    await write(passphrase, true, settings)
    restore(passphrase)
    const now = stateOf(target)
    const texts = Object.entries(now).flatMap(([path, text]) => (path.includes('restore/') ? [] : [text]))
    for (const text of hidden)
      assert.equal(texts.includes(text), passphrase !== undefined && Object.values(NAMED).includes(text), text)
    assert.equal(now['data/keys/ca'], 'authority')
    assert.equal(now['data/linked'], passphrase && NAMED['keys/psk'])
    // without compression they would be visible
    const names = readFileSync(file).toString('latin1')
    for (const path of Object.keys({ ...COPIES, ...SESSIONS, ...NAMED }))
      assert.ok(!names.includes(`data/${path}"`), path)
  }
})

test('a backup of a data directory that does not exist names it', async t => {
  const { dataDir, dir, write } = world(t)
  rmSync(dataDir, { recursive: true })
  await assert.rejects(write(), {
    code: 'NOT_FOUND',
    message: `there is no data directory ${dataDir}`,
    hint: /--data-dir/,
  })
  assert.ok(!realFiles.list(dir).some(name => name.startsWith('x.backup')))
})

test('an allocator restored from a backup never assigns an id that may be in use since the backup', t => {
  const { dir } = world(t)
  let now = 1_710_000_000
  const path = join(dir, 'ids.json')
  const open = (restored = false, pool = false): IdAllocator =>
    new IdAllocator(
      { ...(pool && { startId: 1, endId: 0 }), leasePolicy: { base_lease_seconds: 1000 } },
      { store: new FileIdStore(path, realFiles, restored ? () => now : undefined), now: () => now },
    )
  const before = open()
  const kept = before.allocateId({ device_id: 'kept' })
  const ended = before.allocateId({ device_id: 'ended' })
  const freed = before.allocateId({ device_id: 'freed' })
  before.releaseId(freed, true)
  now += 900
  before.touch(kept)
  before.stop()
  // the old board assigned `freed` to another device, and did the same with `ended` after its lease; then the board was
  // lost
  now += 500
  const after = open(true)
  assert.equal(after.allocateId({ device_id: 'kept' }), kept)
  const fresh = [...after.allocatePool(100), after.allocateId({ device_id: 'ended' })]
  for (const id of fresh) assert.ok(id > 1_000_000, `${id}`)
  assert.ok(!fresh.includes(ended))
  after.stop()
  // the mark file was removed: from now on the allocator file itself contains the restore
  const later = open()
  assert.ok(later.allocateId({ device_id: 'later' }) > 1_000_000)
  assert.equal(later.allocateId({ device_id: 'kept' }), kept)
})

test('an id pool restored from a backup requests new ids', t => {
  const { dir } = world(t)
  const store = (restored: boolean) =>
    new FileIdStore(join(dir, 'pool.json'), realFiles, restored ? () => 2000 : undefined)
  const pool = (restored: boolean): IdAllocator =>
    new IdAllocator({ startId: 1, endId: 0 }, { store: store(restored), now: () => 2000 })
  const before = pool(false)
  before.grant([50, 51, 52], 10_000)
  const kept = before.allocateId({ device_id: 'kept' })
  before.stop()
  const after = pool(true)
  assert.equal(after.grantsLeft, 0)
  assert.equal(after.allocateId({ device_id: 'kept' }), kept)
  after.grant([90], 10_000)
  assert.equal(after.allocateId({ device_id: 'new' }), 90)
})
