// A backup file, and restores from a file that is damaged, truncated, of another version, or sealed with another passphrase:
// each fails with a clear error and changes nothing. Which files a backup contains and which it leaves out.
import assert from 'node:assert/strict'
import fs, { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { backupTo, finishRestore, prepareRestore, restoreBackup } from '../../../src/backup'
import { writeBackup } from '../../../src/backup/backup'
import { filesIn } from '../../../src/backup/contents'
import { BackupWriter } from '../../../src/backup/format'
import { forgetOldState, isUnfinished } from '../../../src/backup/settle'
import { realFiles } from '../../../src/lib/files'
import { FlashLog, verify } from '../../../src/log'
import { scanSegment } from '../../../src/log/segment'
import { IdAllocator } from '../../../src/protocol/ids/allocator'
import { FileIdStore } from '../../../src/protocol/ids/id-store'
import { factOf, LOCAL } from '../log/helpers'

const PASSPHRASE = 'a long passphrase'
const CONFIG = { whole: '{"password":"hush"}', bare: '{}', leftOut: ['password'] }

/** One file of each kind; those under `not` must not be in the backup. */
const STATE: Record<string, string> = {
  'log/0000000000000001.seg': 'records '.repeat(400),
  'sql/window-1': 'rows',
  'last_time.json': '{"ms":1}',
  'install-id': 'abcdef012345\n',
  'id_allocation.json': '{"allocated":{},"released":[],"next_candidate":4}\n',
  'id_allocation.json.journal': 'lines\n',
  'upstream/Config.json': '{}',
  'upstream/log/0000000000000001.seg': 'more',
}
const NOT: Record<string, string> = {
  'os-node.lock': 'x',
  'starts.json': '{}',
  'log/chain.json': '{}',
  'log/x.damaged-1': 'x',
  'native/addon.node': 'x',
  'secure_sessions.json': '{"key":"session-key"}',
  'device_registry/spill/1.spill': 'x',
  'config.last-good.json': '{"password":"hush"}',
  'upstream/secure_sessions.json': 'session-key',
  'half.tmp': 'x',
  'restore/old-1/x': 'x',
}
const SECRET: Record<string, string> = {
  'token.json': '{"hash":"token-hash"}',
  'web_tls.pem': 'private',
  'upstream/token.json': 'u',
}

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

function put(dir: string, state: Record<string, string>): void {
  for (const [path, text] of Object.entries(state)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
}

const stateOf = (dir: string): Record<string, string> =>
  Object.fromEntries(filesIn(dir, realFiles).map(path => [path, readFileSync(join(dir, path), 'utf8')]))

function world(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-backup-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const dataDir = join(dir, 'data')
  put(dataDir, { ...STATE, ...NOT, ...SECRET })
  const file = join(dir, 'x.backup')
  const about = { version: '1.2.3', created: 1000, device_id: 'GW1', assigned_id: 7 }
  const write = (passphrase?: string, force = false, settings = {}) => {
    const place = { path: join(dataDir, 'Config.json'), baseDir: dir, settings }
    return backupTo(file, force, { dataDir, config: CONFIG, place, about, passphrase })
  }
  const target = join(dir, 'new')
  put(target, { 'data/log/0000000000000009.seg': 'old', 'data/os-node.lock': 'mine', 'Config.json': '{"old":1}' })
  const restore = (passphrase?: string, from = file) =>
    restoreBackup({
      file: from,
      dataDir: join(target, 'data'),
      configPath: join(target, 'Config.json'),
      passphrase,
      now: 5,
    })
  return { dir, dataDir, file, write, target, restore }
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

test('a restore that a gateway prepares leaves its state unchanged until the next start applies it', async t => {
  const { dir, write, file, target, restore } = world(t)
  await write()
  const before = stateOf(target)
  const dataDir = join(target, 'data')
  const place = { dataDir, configPath: join(target, 'Config.json'), now: 5 }
  const cut = join(dir, 'cut.backup')
  writeFileSync(cut, readFileSync(file).subarray(0, -40))
  await assert.rejects(prepareRestore({ ...place, file: cut }), { code: 'E_BACKUP', message: /cut short/ })
  assert.deepEqual(stateOf(target), before)

  const { device_id, old_state } = await prepareRestore({ ...place, file })
  assert.deepEqual([device_id, old_state], ['GW1', join(dataDir, 'restore/old-1')])
  assert.equal(isUnfinished(dataDir), true)
  const beside = Object.entries(stateOf(target)).filter(([path]) => !path.startsWith('data/restore/'))
  assert.deepEqual(Object.fromEntries(beside), before)
  finishRestore(dataDir)
  const prepared = stateOf(target)
  assert.equal(prepared['data/restore/old-1/data/log/0000000000000009.seg'], 'old')
  // the state that `os-node restore` leaves behind
  restore()
  const { 'Config.json': config, 'data/restored.json': mark } = stateOf(target)
  assert.deepEqual([prepared['Config.json'], prepared['data/restored.json']], [config, mark])
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

test('a backup that is truncated or damaged at any byte changes nothing', async t => {
  const { dir, file, write, target, restore } = world(t)
  await write(PASSPHRASE)
  const whole = readFileSync(file)
  const before = stateOf(target)
  const other = join(dir, 'bad.backup')
  const refused = (bytes: Uint8Array, where: string): void => {
    writeFileSync(other, bytes)
    assert.throws(() => restore(undefined, other), { code: 'E_BACKUP' }, where)
    assert.deepEqual(stateOf(target), before, where)
  }
  for (let length = 0; length < whole.length; length += length < 60 ? 1 : 37)
    refused(whole.subarray(0, length), `cut at ${length}`)
  for (let at = 0; at < whole.length; at += at < 60 ? 1 : 23) {
    const bytes = Buffer.from(whole)
    bytes[at]! ^= 1 << (at % 8)
    refused(bytes, `byte ${at}`)
  }
  refused(Buffer.concat([whole, Buffer.of(0)]), 'something behind it')
})

test('a backup of another format version, a file that is no backup, and one with paths outside the target are refused by name', async t => {
  const { dir, file, write, target, restore } = world(t)
  await write()
  const before = stateOf(target)
  const other = join(dir, 'bad.backup')
  const refused = (bytes: Uint8Array, message: RegExp): void => {
    writeFileSync(other, bytes)
    assert.throws(() => restore(undefined, other), { code: 'E_BACKUP', message })
    assert.deepEqual(stateOf(target), before)
  }
  const text = readFileSync(file).toString('latin1')
  refused(Buffer.from(text.replace('backup 1\n', 'backup 2\n'), 'latin1'), /has format 2, this os-node reads format 1/)
  refused(Buffer.from('{}'), /no backup of os-node/)
  refused(Buffer.from(text.replace('data/install-id', 'data/../install'), 'latin1'), /outside of the data directory/)
  assert.throws(() => restore(undefined, join(dir, 'none')), { code: 'E_BACKUP', message: /cannot be read \(ENOENT\)/ })
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
