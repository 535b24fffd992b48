// What the page knows of the slots, and how it requests an update, through the files of the image.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemUpdate } from '../../../src/web/system-update'
import { removeDir } from '../../lib/gateway'

test('slots are shown as the system wrote them; a request is stored in a file, except where an update is installed', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-slots-'))
  t.after(() => removeDir(dir))
  const [shown, request] = [join(dir, 'slots.json'), join(dir, 'request')]
  assert.equal(systemUpdate({ OS_NODE_SLOTS: shown }), undefined)
  const uploaded = join(dir, 'upload')
  const files = { OS_NODE_SLOTS: shown, OS_NODE_UPDATE_REQUEST: request, OS_NODE_UPDATE_UPLOAD: uploaded }
  const update = systemUpdate(files)!
  assert.throws(() => update.show(), { code: 'NO_SLOTS', message: /has not reported/ })
  assert.throws(() => update.request('https://example.org/a'), { code: 'NO_SLOTS' })
  writeFileSync(shown, '{"ok":true,"board":"rpi-4","slots":[]}')
  assert.deepEqual(update.show(), { ok: true, board: 'rpi-4', slots: [] })
  update.request('https://example.org/a')
  assert.equal(readFileSync(request, 'utf8'), 'https://example.org/a')
  writeFileSync(shown, '{"ok":true,"board":"rpi-4","slots":[],"progress":{"step":"write"}}')
  assert.throws(() => update.request('https://example.org/b'), {
    code: 'E_UPDATE',
    message: 'an update is being installed',
  })
  assert.ok(existsSync(request))
  // where the system does not require it, a login writes nothing
  update.loggedIn()
  const env = { ...files, OS_NODE_LOGGED_IN: join(dir, 'login') }
  const image = systemUpdate(env)!
  assert.ok(!existsSync(join(dir, 'login')))
  image.loggedIn()
  assert.ok(existsSync(join(dir, 'login')))
  // a read-only folder is no reason to refuse a login
  systemUpdate({ ...env, OS_NODE_LOGGED_IN: join(dir, 'nowhere/login') })!.loggedIn()
  assert.equal(readFileSync(request, 'utf8'), 'https://example.org/a')
})

test('an uploaded update is requested by its path; one that was not completed goes with the next start, one that was requested stays', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-slots-'))
  t.after(() => removeDir(dir))
  const [shown, request, uploaded] = [join(dir, 'slots.json'), join(dir, 'request'), join(dir, 'data/upload')]
  const start = () =>
    systemUpdate({ OS_NODE_SLOTS: shown, OS_NODE_UPDATE_REQUEST: request, OS_NODE_UPDATE_UPLOAD: uploaded })!
  writeFileSync(shown, '{"ok":true,"board":"rpi-4","slots":[]}')
  assert.equal(start().piece(0, Buffer.from('half an')), 7)
  const update = start()
  assert.ok(!existsSync(uploaded))
  assert.throws(() => update.request(7), { code: 'BAD_REQUEST', message: '0 bytes were uploaded, not 7' })
  assert.equal(update.piece(0, Buffer.from('an upd')), 6)
  assert.equal(update.piece(6, Buffer.from('ate')), 9)
  // its answer was lost
  assert.equal(update.piece(6, Buffer.from('ate')), 9)
  assert.throws(() => update.piece(192 * 2 ** 20, Buffer.from('x')), { code: 'BAD_REQUEST' })
  update.request(9)
  assert.deepEqual([readFileSync(request, 'utf8'), readFileSync(uploaded, 'utf8')], [uploaded, 'an update'])
  // it is not changed while the system reads it
  assert.throws(() => update.piece(0, Buffer.from('other')), { code: 'E_UPDATE' })
  assert.throws(() => update.request(9), { code: 'E_UPDATE' })
  start()
  assert.equal(readFileSync(uploaded, 'utf8'), 'an update')
  rmSync(request)
  // another update begins meanwhile: this one will not be installed
  assert.equal(update.piece(0, Buffer.from('half')), 4)
  writeFileSync(request, 'https://example.org/a')
  assert.throws(() => update.piece(4, Buffer.from(' an')), { code: 'E_UPDATE' })
  assert.ok(!existsSync(uploaded))
  rmSync(request)
  const large = { length: 192 * 2 ** 20 + 1 } as Uint8Array
  assert.throws(() => update.piece(0, large), { code: 'BODY_TOO_LARGE', message: /192 MiB/ })
  assert.ok(!existsSync(uploaded))
})
