// The mutation fuzzer (QUALITY S14): a target is a parser and what it may answer. Inputs that once failed (and others of
// interest) lie in test/corpus/<target>.txt, one base64 line each, and go first; then mutations of them and of the target's
// own seeds, until the target's share of the time is used. An input whose outcome is new joins the pool, so that the search
// goes deeper. Adding a target is one call of fuzz().
//
// OS_NODE_FUZZ_SEED repeats a run (the default is the day's number), OS_NODE_FUZZ_SECONDS is the time of the whole group.
// A failing input is printed as the line that belongs into the corpus file.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { mutate, Random } from './mutate'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const SEED = Number(process.env.OS_NODE_FUZZ_SEED ?? Math.floor(Date.now() / 86_400_000))
const SECONDS = Number(process.env.OS_NODE_FUZZ_SECONDS ?? 16)
/** targets of the whole group, for the share of one */
const TARGETS = 16
/** the largest input; a UDP datagram is smaller */
export const MAX_INPUT = 0x10400
const POOL = 512
const HEAP_BUDGET = 48 << 20

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

export interface Target {
  readonly name: string
  readonly seeds: readonly Uint8Array[]
  /** what follows from an input in a few words, equal for inputs of the same kind; throws `allowed` errors or fails */
  run(input: Buffer): string
  /** codes of errors that are answers, not faults; none by default */
  readonly allowed?: readonly string[]
  /** after the blind mutations: makes checksums right, keeps a form; called for most inputs */
  shape?(input: Buffer, random: Random): Buffer
  /** words and fragments to be woven in */
  readonly words?: readonly (string | Uint8Array)[]
  /** sizes of what the target keeps, each with its bound */
  kept?(): Record<string, readonly [size: number, bound: number]>
  /** inputs of about n bytes whose time must grow no faster than n */
  readonly growing?: Record<string, (n: number) => Uint8Array>
}

/** The inputs of the corpus file; lines that start with # say why one is there. */
export function corpus(name: string): Buffer[] {
  const path = join(root, 'test/corpus', `${name}.txt`)
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines
    .filter(line => line.trim() !== '' && !line.startsWith('#'))
    .map(line => Buffer.from(line.trim(), 'base64'))
}

/** Every case of the vectors, as it stands in the files. */
export function vectors(): { op: string; in: Record<string, unknown> }[] {
  const dir = join(root, 'test/vectors')
  return readdirSync(dir).flatMap(file => JSON.parse(readFileSync(join(dir, file), 'utf8')).cases)
}

export function fuzz(target: Target): void {
  test(`${target.name}: no input throws, grows or stalls`, t => {
    const random = new Random(SEED)
    const pool = [...corpus(target.name), ...target.seeds.map(seed => Buffer.from(seed))]
    assert.ok(pool.length > 0, 'a target needs seeds')
    const seen = new Set<string>()
    let count = 0
    for (const input of pool) try1(target, input, `corpus or seed ${count++}`, seen)
    gc()
    const heap = process.memoryUsage().heapUsed
    const until = performance.now() + (SECONDS * 1000) / TARGETS
    const started = performance.now()
    while (performance.now() < until) {
      for (let k = 0; k < 64; k++) {
        count++
        let input = mutate(pool, random, target.words ?? [], MAX_INPUT)
        if (target.shape && random.chance(0.85)) input = target.shape(input, random)
        if (!try1(target, input, `input ${count} of seed ${SEED}`, seen) || input.length > 4096) continue
        if (pool.length < POOL) pool.push(input)
        else pool[random.below(POOL)] = input
      }
      bounded(target)
    }
    const took = (performance.now() - started) / 1000
    bounded(target)
    gc()
    const grown = process.memoryUsage().heapUsed - heap
    assert.ok(
      grown < HEAP_BUDGET,
      `${target.name}: the heap grew by ${grown >> 20} MiB over ${count} inputs, seed ${SEED}`,
    )
    for (const [name, make] of Object.entries(target.growing ?? {})) linear(target, name, make)
    t.diagnostic(`${count} inputs, ${Math.round(count / took)}/s, ${seen.size} outcomes, seed ${SEED}`)
  })
}

/** True when the outcome is a new one. */
function try1(target: Target, input: Buffer, what: string, seen: Set<string>): boolean {
  const outcome = outcomeOf(target, input, what)
  if (seen.has(outcome) || seen.size > 4096) return false
  seen.add(outcome)
  return true
}

function outcomeOf(target: Target, input: Buffer, what: string): string {
  try {
    return target.run(input)
  } catch (thrown) {
    const code = (thrown as { code?: unknown }).code
    if (typeof code === 'string' && target.allowed?.includes(code)) return code
    const line = input.toString('base64')
    throw new Error(
      `${target.name}, ${what}: ${String(thrown)}\ntest/corpus/${target.name}.txt needs the line\n${line}`,
      {
        cause: thrown,
      },
    )
  }
}

function bounded(target: Target): void {
  for (const [name, [size, bound]] of Object.entries(target.kept?.() ?? {}))
    assert.ok(size <= bound, `${target.name}: ${name} holds ${size}, more than ${bound}; seed ${SEED}`)
}

const WHOLE = 0x10000
const PARTS = 16
/** no machine that runs these tests is so slow that a linear parser needs this long for 64 KiB */
const STALL_MS = 3000

/**
 * Sixteen inputs of 4 KiB against one of 64 KiB, the best of several turns each: the same bytes, so the same time where time
 * is linear, and a sixteenth of it where it is quadratic. Only a factor of 4 in each of three trials fails; what is done
 * within 4 ms cannot stall anything and passes.
 */
function linear(target: Target, name: string, make: (n: number) => Uint8Array): void {
  const whole = Buffer.from(make(WHOLE))
  const part = Buffer.from(make(WHOLE / PARTS))
  const time = (input: Buffer, turns: number): number => {
    const start = performance.now()
    for (let k = 0; k < turns; k++) outcomeOf(target, input, `growing ${name}`)
    return performance.now() - start
  }
  let told = ''
  for (let trial = 0; trial < 3; trial++) {
    let one = Number.POSITIVE_INFINITY
    let many = Number.POSITIVE_INFINITY
    for (let turn = 0; turn < 5 && one > 4; turn++) {
      many = Math.min(many, time(part, PARTS))
      one = Math.min(one, time(whole, 1))
      assert.ok(one < STALL_MS, `${target.name}: ${Math.round(one)} ms for 64 KiB ${name}`)
    }
    if (one <= 4 || one <= 4 * many) return
    told = `${one.toFixed(1)} ms for 64 KiB, ${many.toFixed(1)} ms for 16 × 4 KiB`
  }
  assert.fail(`${target.name}: time grows faster than the input ${name}: ${told}`)
}
