// Restores from a file that is damaged, truncated, of another version, or with a configuration that a start refuses, and into a
// data directory of two file systems: each fails with a clear error and changes nothing. Restores that were interrupted.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { finishRestore, prepareRestore } from '../../../src/backup'
import { isUnfinished } from '../../../src/backup/restore-progress'
import { ConfigStore } from '../../../src/config'
import { realFiles } from '../../../src/lib/files'
import { PASSPHRASE, put, STATE, stateOf, world } from './world'

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

test('a backup whose Config.json a start would refuse changes nothing', async t => {
  const { write, target, restore } = world(t)
  const config = ConfigStore.load({ dataDir: target, env: {} })
  const checked = (text: string): void => config.check(text)
  const texts = { whole: '{"gateway": {"log": {"max_bytes": "abc"}}}', bare: '{}', leftOut: ['gateway.log.max_bytes'] }
  await write(PASSPHRASE, true, {}, texts)
  assert.throws(() => restore(PASSPHRASE, undefined, checked), {
    code: 'E_BACKUP',
    message: /refuse the configuration in it: Config\.json:1: gateway\.log\.max_bytes.*; nothing was changed/,
    hint: /os-node 1\.2\.3/,
  })
  assert.equal(stateOf(target)['Config.json'], '{"old":1}')
  // the key was left out of this text: it is set after the restore
  await write(undefined, true, {}, { ...texts, bare: texts.whole })
  restore(undefined, undefined, checked)
  assert.equal(stateOf(target)['Config.json'], texts.whole)
  await write(undefined, true, {}, { ...texts, bare: '{"gateway": 7', leftOut: [] })
  assert.throws(() => restore(undefined, undefined, checked), { code: 'E_BACKUP', message: /Config\.json:1/ })
})

test('a data directory with another file system in it is refused before anything is moved', async t => {
  const { write, target, restore } = world(t)
  await write()
  const elsewhere = mkdtempSync('/dev/shm/os-node-backup-')
  t.after(() => rmSync(elsewhere, { recursive: true }))
  assert.notEqual(statSync(elsewhere).dev, statSync(target).dev, 'the test needs two file systems')
  const log = join(target, 'data/log')
  for (const state of [{ '1.seg': 'old' }, {}] as Record<string, string>[]) {
    rmSync(log, { recursive: true, force: true })
    rmSync(elsewhere, { recursive: true })
    mkdirSync(elsewhere)
    put(elsewhere, state)
    symlinkSync(elsewhere, log)
    const before = stateOf(target)
    assert.throws(() => restore(), {
      code: 'DATA_DIR',
      message: /data\/log is another mount.*nothing was changed/,
      hint: /unmount/,
    })
    assert.deepEqual(stateOf(target), before)
    assert.equal(isUnfinished(join(target, 'data')), false)
  }
})

test('with a damaged plan a start goes on if no file is left to move, and else says to restore again, which works', async t => {
  const { write, target, restore } = world(t)
  await write()
  const dataDir = join(target, 'data')
  const plan = join(dataDir, 'restore/plan.json')
  for (const text of ['', '{"\0', 'null', '[7]', '{"phase":"out"}', '{"phase":"later","old":"old-1","config":"x"}']) {
    rmSync(join(dataDir, 'restore'), { recursive: true, force: true })
    // no restore has begun
    put(dataDir, { 'restore/plan.json': text })
    assert.equal(isUnfinished(dataDir), false, text)
    // it is complete
    restore()
    writeFileSync(plan, text)
    assert.equal(isUnfinished(dataDir), false, text)
    // it was interrupted before its last file, or before its first one
    for (const left of ['restore/new/data/x', 'restore/new/data/restored.json']) {
      put(dataDir, { [left]: 'new' })
      if (left.endsWith('restored.json')) rmSync(join(dataDir, 'restored.json'))
      writeFileSync(plan, text)
      assert.throws(() => isUnfinished(dataDir), {
        code: 'STORAGE',
        message: /plan\.json is damaged/,
        hint: /os-node restore FILE/,
      })
      finishRestore(dataDir)
      assert.ok(realFiles.exists(join(dataDir, left)), 'nothing was moved')
      restore()
      assert.equal(isUnfinished(dataDir), false, text)
      assert.equal(stateOf(target)['data/log/0000000000000001.seg'], STATE['log/0000000000000001.seg'])
    }
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
