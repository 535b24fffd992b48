import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { Identity } from '../../../src/gateway/identity'
import { Unkept } from '../../../src/gateway/unsaved'
import { realFiles } from '../../../src/lib/files'
import { createLogger, silentLogger } from '../../../src/lib/logger'
import { firstToken, storedToken } from '../../../src/services/users'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { systemError } from '../log/memfiles'

function fixture() {
  const told: string[] = []
  const timers = new ManualTimers(new ManualClock())
  const unkept = new Unkept(createLogger({ write: line => void told.push(line) }), { timers, wall: () => 1234 })
  return { unkept, timers, told }
}

test('state that the disk refuses is written again with growing intervals until it is kept; the status names it', async () => {
  const { unkept, timers, told } = fixture()
  let code = 'ENOSPC'
  let tries = 0
  const write = (): void => {
    tries++
    if (code) throw systemError(code)
  }
  unkept.write('the lock', write)
  unkept.write('other', () => undefined)
  assert.deepEqual(unkept.report(), {
    state: 'degraded',
    reason: 'disk full (ENOSPC)',
    since: 1234,
    in_ram: ['the lock'],
    hint: unkept.report()!.hint,
  })
  code = 'EROFS'
  await timers.advance(1999)
  assert.equal(tries, 1)
  await timers.advance(1)
  assert.equal(tries, 2)
  assert.equal(unkept.report()!.reason, 'file system is read-only (EROFS)')
  await timers.advance(3_600_000)
  // 4, 8, then every 10 s
  assert.ok(tries > 350 && tries < 370, String(tries))
  code = ''
  await timers.advance(10_000)
  assert.equal(unkept.report(), undefined)
  assert.deepEqual([told.filter(line => line.includes('WARN')).length, timers.pending], [1, 0])
  assert.match(told.at(-1)!, /INFO .*the lock is on flash now/)
  // and once more
  code = 'EIO'
  unkept.write('the lock', write)
  assert.equal(unkept.report()!.reason, 'input/output error (EIO)')
  unkept.stop()
  assert.equal(timers.pending, 0)
})

test('the newest write of a name counts, and an error that is no fault of the disk is thrown', async () => {
  const { unkept, timers } = fixture()
  const written: number[] = []
  let full = true
  const keep = (n: number) => (): void => {
    if (full) throw systemError('EDQUOT')
    written.push(n)
  }
  unkept.write('id', keep(1))
  unkept.write('id', keep(2))
  full = false
  await timers.advance(2000)
  assert.deepEqual(written, [2])
  assert.throws(
    () =>
      unkept.write('x', () => {
        throw new TypeError('a defect')
      }),
    /a defect/,
  )
})

test('identity and first token are kept in RAM while the disk refuses writes, and are the same on disk later', async () => {
  const root = mkdtempSync(join(tmpdir(), 'os-node-unkept-'))
  try {
    const { unkept, timers } = fixture()
    let full = true
    const files = {
      ...realFiles,
      open: (...args: Parameters<typeof realFiles.open>) => {
        if (full) throw systemError('ENOSPC')
        return realFiles.open(...args)
      },
    }
    writeFileSync(join(root, 'Config.json'), '{"device_id":""}')
    const config = ConfigStore.load({
      path: join(root, 'Config.json'),
      dataDir: join(root, 'data'),
      env: {},
      files,
      keep: false,
    })
    const identity = new Identity(config, silentLogger, files, unkept.add)
    identity.assign(42)
    const { deviceId, installId } = identity
    assert.deepEqual([...unkept.report()!.in_ram].sort(), [
      'assigned_id of Config.json',
      'device_id of Config.json',
      'the install id',
    ])
    // the token's file is written by real calls: a path that cannot be a folder plays the broken disk
    const dir = join(root, 'file')
    writeFileSync(dir, '')
    await assert.rejects(firstToken(dir, unkept.add), { code: 'EEXIST' })
    full = false
    await timers.advance(2000)
    assert.equal(unkept.report(), undefined)
    const kept = JSON.parse(readFileSync(join(root, 'Config.json'), 'utf8'))
    assert.deepEqual([kept.device_id, kept.assigned_id], [deviceId, 42])
    assert.equal(readFileSync(join(root, 'data/install-id'), 'utf8').trim(), installId)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

test('a first token that cannot be stored is valid until the stop', async () => {
  const later: string[] = []
  const dir = '/sys/module/os-node-has-none'
  await firstToken(dir, (name, write) => {
    later.push(name)
    assert.throws(write, { code: /^E[A-Z]+$/ })
  })
  assert.deepEqual(later, ['the token'])
  assert.match(storedToken(dir)!, /scrypt/)
})
