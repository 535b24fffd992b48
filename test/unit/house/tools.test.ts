// The tools of the tests: what a test needs from the machine, and waiting.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, until } from '../../lib/gateway'

test('until fails immediately on errors that waiting cannot fix, otherwise with the last answer or error', async () => {
  let asked = 0
  const failing = (error: Error) => () => {
    asked++
    throw error
  }
  for (const error of [
    new ReferenceError('x'),
    new TypeError('y'),
    Object.assign(new Error('z'), { syscall: 'spawn a' }),
  ]) {
    asked = 0
    await assert.rejects(until('it', failing(error)), { message: `it: ${error}`, cause: error })
    assert.equal(asked, 1)
  }
  const refused = new Error('ECONNREFUSED')
  await assert.rejects(until('it', failing(refused), 1), {
    message: 'it: not within 1 ms; last: Error: ECONNREFUSED',
    cause: refused,
  })
  await assert.rejects(
    until('it', () => 0, 1),
    { message: 'it: not within 1 ms; last: 0', cause: undefined },
  )
  const answers = [null, '', 'there']
  assert.equal(await until('it', () => answers.shift()), 'there')
})

test('a file needs what its group, the file and its helpers name; one line of apt-get has the packages of all', async () => {
  const { needsOf, remedies } = await import(join(root, 'test/needs.mjs'))
  assert.deepEqual(needsOf('browser/views.test.ts'), ['chromium'])
  assert.ok(needsOf('rig/can.test.ts').includes('kernel'))
  const [line, ...others] = remedies(['cc', 'mosquitto', 'openssl'])
  assert.equal(line, 'apt-get install gcc libc6-dev mosquitto openssl')
  assert.deepEqual(others, [])
  assert.deepEqual(remedies(['loop']), ['nothing: needs root and a free loop device'])
})
