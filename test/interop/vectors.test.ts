// P1: the vectors of the reference, answered by the adapter process on top of the built library. A case that differs on
// purpose is named in divergences.json with its X- or D-number; a named case that passes fails here, so the list stays true.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

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

interface Case {
  name: string
  op: string
  in: Record<string, unknown>
  out: unknown
}
interface Generator {
  count: number
  input: string
  strategy: string
  then: string[]
}

const read = (path: string): unknown => JSON.parse(readFileSync(join(root, path), 'utf8'))
const record = (value: unknown): Record<string, unknown> => value as Record<string, unknown>

/** A case may describe its steps by a pattern instead of listing them. */
function request({ op, in: input }: Case): unknown {
  const { generator, ...rest } = input
  if (!generator) return { op, ...input }
  const { count, input: pattern, strategy, then } = generator as Generator
  const made = Array.from({ length: count }, (_, k) => ({ input: pattern.replace('{i}', String(k)), strategy }))
  return { op, ...rest, steps: [...made, ...then.map(text => ({ input: text, strategy: 'DIFF' }))] }
}

function reduced(c: Case, out: unknown): unknown {
  const packets = record(out)?.packets
  if (!c.in.generator || !Array.isArray(packets)) return out
  return { ...record(out), packets_first3_and_last8: [...packets.slice(0, 3), ...packets.slice(-8)] }
}

/** Every key of the vector must be there; an error matches any error unless it is a sentence. */
function matches(want: unknown, got: unknown): boolean {
  if (want === null || typeof want !== 'object')
    return Object.is(want, got) || (typeof want === 'number' && want === got)
  if (got === null || typeof got !== 'object') return false
  if (Array.isArray(want)) {
    return Array.isArray(got) && got.length === want.length && want.every((w, k) => matches(w, got[k]))
  }
  return Object.entries(want).every(([key, w]) => {
    const g = record(got)[key]
    if (key === 'error') return g !== undefined && (typeof w !== 'string' || !/\s/.test(w) || w === g)
    return matches(w, g)
  })
}

const divergences = record(read('test/interop/divergences.json'))

for (const group of GROUPS) {
  const { cases } = read(`test/vectors/${group}.json`) as { cases: Case[] }
  test(`vectors: ${group}`, () => {
    const run = spawnSync(process.execPath, [join(root, 'test/interop/adapter.mjs')], {
      input: cases.map(c => `${JSON.stringify(request(c))}\n`).join(''),
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    })
    const lines = run.stdout.split('\n').filter(Boolean)
    assert.equal(lines.length, cases.length, `one answer per request; ${run.stderr.slice(0, 500)}`)
    const wrong: string[] = []
    cases.forEach((c, k) => {
      const got = reduced(c, JSON.parse(lines[k]!))
      const good = matches(c.out, got)
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

test('the adapter answers an operation it does not know', () => {
  const run = spawnSync(process.execPath, [join(root, 'test/interop/adapter.mjs')], {
    input: '{"op":"no-such-op"}\n',
    encoding: 'utf8',
  })
  assert.deepEqual(JSON.parse(run.stdout), { error: 'unsupported op' })
})
