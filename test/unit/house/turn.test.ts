// What a quarter run takes in turns depends on the commit, not on the day.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

test('the turn is of the commit, and the first without one', async () => {
  const { turnOf } = (await import(pathToFileURL(join(root, 'test/turn.mjs')).href)) as { turnOf(dir: string): number }
  const dir = mkdtempSync(join(tmpdir(), 'os-turn-'))
  assert.equal(turnOf(dir), 0)
  const git = (...args: string[]): string =>
    spawnSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: dir, encoding: 'utf8' }).stdout ??
    ''
  git('init', '--quiet')
  assert.equal(turnOf(dir), 0)
  git('commit', '--quiet', '--allow-empty', '--message', 'one')
  assert.equal(turnOf(dir), Number.parseInt(git('rev-parse', 'HEAD').slice(0, 8), 16) || 0)
})

test('no test is chosen by the calendar', () => {
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  const byDay = files
    .filter(file => /\.(ts|mjs)$/.test(file))
    .filter(file =>
      /Date\.now\(\) \/ 86_400|getDay\(\)|getDate\(\)/.test(readFileSync(join(root, 'test', file), 'utf8')),
    )
    .filter(file => !file.endsWith('house/turn.test.ts'))
  assert.deepEqual(byDay, [], 'use TURN of test/lib/random.ts')
})
