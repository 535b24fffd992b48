// A backup as a download of the real server: who may, at the pace of the reader, and what a failure looks like.
import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import type { WriteBackup } from '../../../src/web/context'
import { TOKEN } from './helper'
import { world } from './world'

const PIECE = Buffer.alloc(64 * 1024, 7)

test('it is a file with a name; secrets are for admins, with a passphrase that is long enough', async t => {
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

test('an error before the first byte is an answer, one behind it cuts the download', async t => {
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

test('it goes on at the pace of the reader, and ends when the reader leaves', async t => {
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
