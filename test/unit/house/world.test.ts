// The simulated world (docs/simulation.md) reaches a room through its injected dependencies. A file that reads clock, timers, random
// numbers, disk, network, child processes or threads directly bypasses it. The files that may are listed in world-exceptions.json, with what
// each reads; the list may not get longer than MOST entries.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const LIST = 'test/unit/house/world-exceptions.json'
/** entries of the list, a file and a kind each: to be lowered with the list, never raised */
const MOST = 195

const imports = (modules: string, or = '(?!)'): RegExp =>
  new RegExp(`^(import|export) (?!type).*'node:(${modules})'|${or}`, 'm')
const AROUND: Record<string, RegExp> = {
  clock: /\bDate\.now\b|\bperformance\.now\b|\bnew Date\(\)|\bprocess\.(hrtime|uptime)\b/,
  timers: /\bset(Timeout|Interval|Immediate)\(|'node:timers|\bAbortSignal\.timeout\b/,
  random: /\bMath\.random\b|\brandom(Bytes|Int|UUID|FillSync)\b|\bgetRandomValues\b/,
  files: imports('fs|fs/promises'),
  network: imports('net|dgram|dns|dns/promises|tls|http|https|http2', String.raw`(?<![\w.])fetch\(`),
  processes: imports('child_process'),
  threads: imports('worker_threads'),
}

/** Comments mention timers too. */
const code = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')

const found = Object.fromEntries(
  ['src', 'drivers']
    .flatMap(dir => readdirSync(join(root, dir), { recursive: true }).map(file => `${dir}/${String(file)}`))
    // the page runs in a browser, the build on a developer's machine, and the last three are the interfaces themselves
    .filter(file => file.endsWith('.ts') && !/\/page\/|^src\/(build|lib\/(clock|timers|files)\.ts)/.test(file))
    .sort()
    .map(file => {
      const text = code(readFileSync(join(root, file), 'utf8'))
      return [file, Object.keys(AROUND).filter(kind => AROUND[kind]!.test(text))] as const
    })
    .filter(([, kinds]) => kinds.length > 0),
)

test('no new file reads clock, timers, random numbers, disk or network directly', () => {
  const allowed = JSON.parse(readFileSync(join(root, LIST), 'utf8')) as Record<string, string[]>
  const list = (of: Record<string, readonly string[]>): string[] =>
    Object.entries(of).flatMap(([file, kinds]) => kinds.map(kind => `${file}: ${kind}`))
  const fresh = list(found).filter(entry => !list(allowed).includes(entry))
  assert.deepEqual(fresh, [], 'take Clock, Timers, Files or random as a parameter, as the files beside it do')
  const gone = list(allowed).filter(entry => !list(found).includes(entry))
  assert.deepEqual(gone, [], `these no longer do: take them out of ${LIST}, and lower MOST`)
  assert.ok(list(allowed).length <= MOST, `${list(allowed).length} entries in ${LIST}, at most ${MOST}`)
})
