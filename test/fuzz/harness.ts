// The mutation fuzzer (S14): a target is a parser and its allowed outcomes. Inputs that once failed (and other interesting
// ones) are in test/corpus/<target>.txt, one base64 line each, and run first; then mutations of them and of the target's own
// seeds. An input with a new outcome is added to the pool, so that the search goes deeper. One call of fuzz() adds a target.
//
// The run of `npm test` is the same on every day and machine: a fixed seed and a fixed number of inputs, fewer only if a
// slow machine has used up its time; `npm run test:long` runs twelve times as many. A long run with a different seed each
// time searches for new inputs:
//   OS_NODE_FUZZ_SECONDS=3600 npm run test:fuzz        (seconds for the complete group; OS_NODE_FUZZ_SEED repeats a run)
// A failing input is printed as a line for the corpus file.
//
// What a run proves: no input throws, except errors of the allowed codes; the counts of stored items, and the heap, stay
// within their limits. Time grows linearly with the input: of inputs designed to be slow, one of 64 KiB takes no more than
// EXCESS times the processor time of sixteen of 4 KiB (n² steps would take 16 times), in the best of some trials in one run;
// an input that takes less than FAST_MS is fast enough to prove nothing.
// Long: twelve times the inputs
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { rounds } from '../lib/random'
import { mutate, Random } from './mutate'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const SEARCH = process.env.OS_NODE_FUZZ_SECONDS !== undefined
const SEED = Number(process.env.OS_NODE_FUZZ_SEED ?? (SEARCH ? Date.now() % 0x7fff_ffff : 1))
/** targets in the group, to compute the share of one */
const TARGETS = 28
const SECONDS = SEARCH ? Number(process.env.OS_NODE_FUZZ_SECONDS) / TARGETS : rounds(5, 20)
/** inputs of one target, unless it sets its own number: `npm test` runs a fifth of them, test:long five times as many */
const INPUTS = 20_000
/** the largest input; a UDP datagram is smaller */
export const MAX_INPUT = 0x10400
const POOL = 512
const HEAP_BUDGET = 48 << 20

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

export interface Target {
  readonly name: string
  readonly seeds: readonly Uint8Array[]
  /** the outcome of an input in a few words, equal for inputs of the same kind; throws `allowed` errors or fails */
  run(input: Buffer): string
  /** codes of errors that are answers, not faults; none by default */
  readonly allowed?: readonly string[]
  /** after the blind mutations: corrects checksums, keeps a format; called for most inputs */
  shape?(input: Buffer, random: Random): Buffer
  /** words and fragments to insert */
  readonly words?: readonly (string | Uint8Array)[]
  /** sizes of what the target stores, each with its limit */
  kept?(): Record<string, readonly [size: number, bound: number]>
  /** instead of INPUTS, for targets that are slow */
  readonly inputs?: number
  /** inputs of about n bytes, designed to be slow */
  readonly growing?: Record<string, (n: number) => Uint8Array>
}

/** The inputs of the corpus file; a line that starts with # says why an input is in it. */
export function corpus(name: string): Buffer[] {
  const path = join(root, 'test/corpus', `${name}.txt`)
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines
    .filter(line => line.trim() !== '' && !line.startsWith('#'))
    .map(line => Buffer.from(line.trim(), 'base64'))
}

/** Every case of the vectors, as it is in the files. */
export function vectors(): { op: string; in: Record<string, unknown> }[] {
  const dir = join(root, 'test/vectors')
  return readdirSync(dir).flatMap(file => JSON.parse(readFileSync(join(dir, file), 'utf8')).cases)
}

/** The hex examples of docs/protocol.md: packets of every kind. */
export function examples(): Buffer[] {
  const page = readFileSync(join(root, 'docs/protocol.md'), 'utf8')
  return [...page.matchAll(/^```hex [a-z-]+\n(.*?)^```$/gms)].map(([, block]) => {
    const lines = block!.split('\n').map(line => /^(?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*(?= {2}| "|$)/.exec(line)?.[0])
    return Buffer.from(lines.join('').replaceAll(' ', ''), 'hex')
  })
}

export function fuzz(target: Target): void {
  test(`${target.name}: no input throws, grows or takes more than linear time`, async t => {
    const random = new Random(SEED)
    const pool = [...corpus(target.name), ...target.seeds.map(seed => Buffer.from(seed))]
    assert.ok(pool.length > 0, 'a target needs seeds')
    const seen = new Set<string>()
    let count = 0
    for (const input of pool) try1(target, input, `corpus or seed ${count++}`, seen)
    gc()
    const heap = process.memoryUsage().heapUsed
    const most = SEARCH ? Number.POSITIVE_INFINITY : (target.inputs ?? INPUTS) * rounds(0.2, 5)
    const started = performance.now()
    const until = started + SECONDS * 1000
    while (count < most && performance.now() < until) {
      for (let k = 0; k < 64; k++) {
        count++
        let input = mutate(pool, random, target.words ?? [], MAX_INPUT)
        if (target.shape && random.chance(0.85)) input = target.shape(input, random)
        if (!try1(target, input, `input ${count} of seed ${SEED}`, seen) || input.length > 4096) continue
        if (pool.length < POOL) pool.push(input)
        else pool[random.below(POOL)] = input
      }
      bounded(target)
      // deferred work of a target (a file that is written in slices) is done before memory is measured
      await turn()
    }
    const took = (performance.now() - started) / 1000
    bounded(target)
    for (let k = 0; k < 64; k++) await turn()
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
const PART = 0x1000
const TRIALS = 6
const EXCESS = 8
const FAST_MS = 15

/** Milliseconds of processor time, so that a busy machine changes nothing. */
function cost(target: Target, what: string, input: Uint8Array, times: number): number {
  const copies = Array.from({ length: times }, () => Buffer.from(input))
  const before = process.cpuUsage()
  for (const copy of copies) outcomeOf(target, copy, what)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** The ratio of one run, judged by the best trial; the runner ends a parser that never returns. */
function linear(target: Target, name: string, make: (n: number) => Uint8Array): void {
  const what = `growing ${name}`
  const told: string[] = []
  for (let trial = 0; trial < TRIALS; trial++) {
    const whole = cost(target, what, make(WHOLE), 1)
    if (whole < FAST_MS) return
    const parts = cost(target, what, make(PART), WHOLE / PART)
    if (whole <= EXCESS * parts) return
    told.push(`${whole.toFixed(0)} ms against ${parts.toFixed(0)} ms`)
  }
  assert.fail(`${target.name}: time grows faster than the input, 64 KiB ${name}: ${told.join(', ')}`)
}
