// What the configuration has for a database server, and the files that it names.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { serverSetup } from '../../../../src/storage/server/setup'
import { makeFifo } from '../../../lib/fifo'

test('files of a database server are read from the data directory; a FIFO among them is refused and does not block', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-server-setup-'))
  const fifo = makeFifo(join(dir, 'fifo'))
  t.after(() => {
    fifo.end()
    rmSync(dir, { recursive: true, force: true })
  })
  writeFileSync(join(dir, 'password'), 'sesame\n')
  assert.equal(serverSetup('postgresql', { password_file: 'password' }, dir, {}).password, 'sesame')
  assert.throws(() => serverSetup('postgresql', { password_file: 'fifo' }, dir, {}), {
    code: 'CONFIG_INVALID',
    message: /^storage\.sql\.driver\.password_file: E_NOT_REGULAR/,
  })
  assert.equal(fifo.waitedFor(), false)
})
