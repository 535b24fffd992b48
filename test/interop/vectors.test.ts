// P1: the vectors of the reference, answered by the adapter process with the built library; complete nodes on both cores. An intended difference
// is named in divergences.json with its X- or D-number; a named case that passes fails here, so the list stays correct.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Case, isRight, requestOf } from '../../src/services/test-plugin/vectors/cases'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const GROUPS = [
  'primitives',
  'standardize',
  'compress',
  'decompress_text',
  'fuse',
  'receive',
  'medium',
  'handshake',
  'id_allocator',
  'net',
]

const read = (path: string): unknown => JSON.parse(readFileSync(join(root, path), 'utf8'))
const record = (value: unknown): Record<string, unknown> => value as Record<string, unknown>

const divergences = record(read('test/interop/divergences.json'))

const runs = [...GROUPS.map(group => [group, 'pycore']), ['net', 'rscore']] as const

for (const [group, core] of runs) {
  const { cases } = read(`test/vectors/${group}.json`) as { cases: Case[] }
  test(`vectors: ${group}, ${core}`, () => {
    const run = spawnSync(process.execPath, [join(root, 'test/interop/adapter.mjs')], {
      input: cases.map(c => `${JSON.stringify({ ...requestOf(c), core })}\n`).join(''),
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    })
    const lines = run.stdout.split('\n').filter(Boolean)
    assert.equal(lines.length, cases.length, `one answer per request; ${run.stderr.slice(0, 500)}`)
    const wrong: string[] = []
    cases.forEach((c, k) => {
      const good = isRight(c, JSON.parse(lines[k]!))
      if (good && c.name in divergences) wrong.push(`${c.name}: listed in divergences.json, but it passes`)
      if (!good && !(c.name in divergences))
        wrong.push(`${c.name}\n  want ${JSON.stringify(c.out).slice(0, 400)}\n  got  ${lines[k]!.slice(0, 400)}`)
    })
    assert.deepEqual(wrong, [])
  })
}

test('every divergence names a case and its X- or D-number', () => {
  const names = new Set(
    GROUPS.flatMap(g => (read(`test/vectors/${g}.json`) as { cases: Case[] }).cases.map(c => c.name)),
  )
  for (const [name, reason] of Object.entries(divergences)) {
    assert.ok(names.has(name), `${name} is no case`)
    assert.match(String(reason), /^[XD]\d+: \S/)
  }
})

test('the adapter answers an unknown operation', () => {
  const run = spawnSync(process.execPath, [join(root, 'test/interop/adapter.mjs')], {
    input: '{"op":"no-such-op"}\n',
    encoding: 'utf8',
  })
  assert.deepEqual(JSON.parse(run.stdout), { error: 'unsupported op' })
})
