// The session file under real processes: two of them write it at the same time, and one is killed in the middle. The file is
// complete at every moment, whichever wrote last.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { script } from '../../../lib/gateway'

const WRITER = `
const { SecureSessions } = require(process.argv[1])
const [, , path, first] = process.argv
const problems = []
const sessions = new SecureSessions({ storePath: path, onProblem: problem => problems.push(problem) })
for (let k = 0; k < 150; k++) {
  sessions.keyOn(Number(first) + k, 1710000000000 + k)
  sessions.save(true)
  if (k === 20) console.log('writing')
}
if (problems.length > 0) throw new Error(problems[0])
`

test('two concurrent writers and a kill -9: the file is complete at every moment, and no writer fails', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-sessions-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const path = join(dir, 'secure_sessions.json')
  const write = (first: number) => {
    const child = spawn(process.execPath, ['-e', WRITER, script, path, String(first)])
    let errors = ''
    child.stderr.on('data', chunk => {
      errors += chunk
    })
    const writing = new Promise(resolve => child.stdout.once('data', resolve))
    const ended = new Promise<string>(resolve => child.once('exit', () => resolve(errors)))
    return { child, writing, ended }
  }
  const writers = [write(1000), write(2000), write(3000)]
  let reading = true
  const reader = (async () => {
    await Promise.all(writers.map(({ writing }) => writing))
    writers[2]!.child.kill('SIGKILL')
    for (let seen = 0; ; seen++) {
      const { sessions } = JSON.parse(readFileSync(path, 'utf8')) as { sessions: object }
      assert.ok(Object.keys(sessions).length > 0)
      if (!reading) return seen
      await new Promise(setImmediate)
    }
  })()
  assert.deepEqual(await Promise.all(writers.slice(0, 2).map(({ ended }) => ended)), ['', ''])
  reading = false
  assert.ok((await reader) >= 0)
  const { sessions } = JSON.parse(readFileSync(path, 'utf8')) as { sessions: Record<string, { key_hex: string }> }
  assert.ok(Object.values(sessions).every(({ key_hex }) => /^[0-9a-f]{64}$/.test(key_hex)))
})
