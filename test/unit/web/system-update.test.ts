// What the page knows of the slots, and how it requests an update, through the two files of the image.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
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
  const update = systemUpdate({ OS_NODE_SLOTS: shown, OS_NODE_UPDATE_REQUEST: request })!
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
  const env = { OS_NODE_SLOTS: shown, OS_NODE_UPDATE_REQUEST: request, OS_NODE_LOGGED_IN: join(dir, 'login') }
  const image = systemUpdate(env)!
  assert.ok(!existsSync(join(dir, 'login')))
  image.loggedIn()
  assert.ok(existsSync(join(dir, 'login')))
  // a read-only folder is no reason to refuse a login
  systemUpdate({ ...env, OS_NODE_LOGGED_IN: join(dir, 'nowhere/login') })!.loggedIn()
  assert.equal(readFileSync(request, 'utf8'), 'https://example.org/a')
})
