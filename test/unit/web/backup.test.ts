// A backup as a download from the real server: who may, at the speed of the reader, and how a failure appears. And an upload of
// one, in pieces.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { OsError } from '../../../src/lib/errors'
import { backupRestorer } from '../../../src/web/backup'
import type { WriteBackup } from '../../../src/web/context'
import { TOKEN } from './helper'
import { world } from './world'

const PIECE = Buffer.alloc(64 * 1024, 7)

test('a backup is a file with a name; secrets are for admins only, with a passphrase of sufficient length', async t => {
  const passed: (string | undefined)[] = []
  const backup: WriteBackup = async (passphrase, sink) => {
    passed.push(passphrase)
    await sink(Buffer.from('a backup'))
    return {}
  }
  const w = await world(t, { context: { backup } })
  const { status, headers, text } = await w.send('POST', '/api/backup', {})
  assert.deepEqual([status, text, headers['content-type']], [200, 'a backup', 'application/octet-stream'])
  assert.match(String(headers['content-disposition']), /^attachment; filename="[\w.-]+\.backup"$/)
  const passphrase = 'long enough'
  const operator = await w.session('operator')
  assert.equal((await w.send('POST', '/api/backup', {}, operator)).status, 200)
  const { status: refused, json } = await w.send('POST', '/api/backup', { passphrase }, operator)
  assert.deepEqual([refused, json.error], [403, 'role admin required'])
  assert.equal((await w.send('POST', '/api/backup', { passphrase: 'short' })).status, 400)
  assert.equal((await w.send('POST', '/api/backup', { passphrase: 7 })).status, 400)
  assert.equal((await w.send('POST', '/api/backup', { passphrase })).status, 200)
  assert.deepEqual(passed, [undefined, undefined, passphrase])
})

const ask = (port: number): Promise<http.IncomingMessage> =>
  new Promise((resolve, reject) => {
    const headers = { 'X-Admin-Token': TOKEN, 'Content-Type': 'application/json' }
    const request = http.request({ host: '127.0.0.1', port, path: '/api/backup', method: 'POST', headers })
    request.on('response', resolve).on('error', reject)
    request.end('{}')
  })

test('an error before the first byte is an answer, a later one aborts the download', async t => {
  for (const begun of [false, true]) {
    const backup: WriteBackup = async (_, sink) => {
      if (begun) await sink(PIECE)
      throw new OsError('TOO_MANY_JOBS', 'another backup is being written')
    }
    const w = await world(t, { context: { backup } })
    if (begun) await assert.rejects((await ask(w.server.port)).toArray(), { code: 'ECONNRESET' })
    else {
      const { status, json } = await w.send('POST', '/api/backup', {})
      assert.deepEqual([status, json.code], [503, 'TOO_MANY_JOBS'])
    }
  }
})

test('the download runs at the speed of the reader, and ends when the reader disconnects', async t => {
  let made = 0
  let ended = ''
  const backup: WriteBackup = async (_, sink) => {
    try {
      for (;;) {
        await sink(PIECE)
        made++
      }
    } catch (error) {
      ended = (error as Error).message
      throw error
    }
  }
  const w = await world(t, { context: { backup } })
  const response = await ask(w.server.port)
  response.pause()
  let before = -1
  while (before !== made || made === 0) {
    before = made
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  assert.ok(made < 1000, `${made} pieces were made for a reader that does not read`)
  response.destroy()
  for (const end = Date.now() + 5000; ended === '' && Date.now() < end; )
    await new Promise(resolve => setTimeout(resolve, 20))
  assert.equal(ended, 'the caller left')
})

test('only an admin restores a backup, and an invalid piece is refused with the rule', async t => {
  const got: unknown[] = []
  const restore = {
    piece: (offset: number, bytes: Uint8Array): number => {
      got.push(`${offset} ${Buffer.from(bytes)}`)
      return offset + bytes.length
    },
    start: async (size: number, passphrase: string | undefined) => {
      got.push(size, passphrase)
      return { device_id: 'GW1', secrets_restored: false }
    },
  }
  const w = await world(t, { context: { restore } })
  const piece = { offset: 0, data: Buffer.from('a backup').toString('base64') }
  const operator = await w.session('operator')
  for (const method of ['PUT', 'POST'] as const)
    assert.equal((await w.send(method, '/api/restore', { ...piece, size: 8 }, operator)).status, 403)
  assert.deepEqual((await w.send('PUT', '/api/restore', piece)).json, { ok: true, size: 8 })
  assert.equal(
    (await w.send('PUT', '/api/restore', { ...piece, data: 'no base64!' })).json.error,
    'data must be base64',
  )
  assert.equal((await w.send('POST', '/api/restore', { size: 8, passphrase: 'short' })).status, 400)
  const { json } = await w.send('POST', '/api/restore', { size: 8, passphrase: 'long enough' })
  assert.deepEqual(json, { ok: true, device_id: 'GW1', secrets_restored: false })
  assert.deepEqual(got, ['0 a backup', 8, 'long enough'])
})

test('pieces are accepted in order and up to a limit; nothing is left of a failed upload', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-upload-'))
  t.after(() => rmSync(dir, { recursive: true }))
  let stopped = 0
  const config = ConfigStore.load({ dataDir: dir, env: {} })
  const { piece, start } = backupRestorer(config, () => stopped++)
  const file = join(dir, 'restore/upload')
  assert.equal(piece(0, Buffer.from('first')), 5)
  assert.equal(piece(5, Buffer.from(' second')), 12)
  assert.equal(readFileSync(file, 'utf8'), 'first second')
  assert.throws(() => piece(6, PIECE), { code: 'BAD_REQUEST', message: 'the next piece begins at 12' })
  await assert.rejects(start(13, undefined), { code: 'BAD_REQUEST', message: '12 bytes were uploaded, not 13' })
  assert.equal(piece(0, Buffer.from('again')), 5)
  assert.equal(readFileSync(file, 'utf8'), 'again')
  // the checking program is not installed next to a test; a refused upload is removed, and the gateway continues
  await assert.rejects(start(5, undefined), { code: 'E_BACKUP' })
  assert.ok(!existsSync(file))
  assert.equal(stopped, 0)
  piece(0, Buffer.from('x'))
  const large = { length: 2 ** 30 } as Uint8Array
  assert.throws(() => piece(1, large), { code: 'BODY_TOO_LARGE', hint: /os-node restore/ })
  assert.ok(!existsSync(file))
})
