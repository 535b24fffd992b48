// The simulated world, which `npm run test:sim` runs on any number of seeds: the same seed is the same run on either core, and two
// built-in faults are noticed. All of them: simulated.long.test.ts.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../lib/gateway'
import { simulate, variants } from '../lib/simulated'

test('a seed gives the same run twice and on either core, byte for byte, and another seed another run', async () => {
  // each seed runs twice, with one text for all starts and with one for each, and fails where the traces differ
  const [first, other] = await simulate(2, { hours: 0.05 })
  assert.deepEqual([first?.failure, other?.failure], [undefined, undefined])
  assert.ok(first!.events > 500, `${first!.events} events`)
  assert.notEqual(other!.hash, first!.hash)
  const native = await simulate(2, { hours: 0.05, rscore: true })
  assert.deepEqual(
    native.map(({ hash }) => hash),
    [first!.hash, other!.hash],
    'gateways on rscore',
  )
})

test('every fault has its place in the source', async () => {
  const all = await variants(true)
  assert.ok(all.length > 40, `${all.length}`)
  const patches = all.flatMap(({ id, patches }) => patches.map(([file, text]) => ({ id, file, text })))
  const misplaced = patches.filter(({ file, text }) => readFileSync(join(root, file), 'utf8').split(text).length !== 2)
  assert.deepEqual(misplaced, [])
})

for (const id of ['sync-left-out', 'answer-before-commit'])
  test(`the fault ${id} is noticed`, async () => {
    const results = await simulate(10, { hours: 0.1, mode: 'strict' }, id)
    assert.ok(results.at(-1)!.failure, `${results.length} seeds without a failure`)
  })

test('what a module keeps from one start to the next is noticed', async () => {
  const file = 'src/gateway/uplink/pump.ts'
  const patches = [
    [file, 'const LEAST_WAIT_MS = 5', 'let leastWait = 5'],
    [file, 'Math.max(LEAST_WAIT_MS,', 'Math.max(++leastWait,'],
  ] as const
  const results = await simulate(3, { hours: 0.05 }, patches, true)
  assert.match(results.at(-1)!.failure ?? '', /^two runs of the seed differ/)
})

test('a program that reaches around the world fails the run, also where it ignores the refusal', async () => {
  const calls = [
    ...[
      'fetch("http://10.0.0.1/")',
      'AbortSignal.timeout(5)',
      'globalThis.crypto.randomUUID()',
      'new WeakRef({}).deref()',
    ],
    ...['require("node:os").userInfo()', 'require("node:crypto").generateKeyPairSync("ed25519")', 'new Function("1")'],
    ...['require("node:child_process").spawn("date")', 'WebAssembly.compile("")', 'console.log("here")'],
  ]
  const start = 'async start(): Promise<void> {'
  const reached = calls.map(call => `try { ${call} } catch {}`).join('\n')
  await assert.rejects(
    simulate(1, { hours: 0.02 }, [['src/gateway/gateway.ts', start, `${start}\n${reached}`]]),
    error => {
      const { actual } = error as { actual: string[] }
      const names = ['fetch', 'AbortSignal.timeout', 'crypto.randomUUID', 'WeakRef', 'os.userInfo']
      const others = [
        'crypto.generateKeyPairSync',
        'Function',
        'child_process.spawn',
        'WebAssembly.compile',
        'console.log',
      ]
      assert.deepEqual(
        actual,
        [...names, ...others].map(name => `upstream reached around the world: ${name}`),
      )
      return true
    },
  )
})
