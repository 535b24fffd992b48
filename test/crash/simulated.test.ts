// The simulated world on a few seeds, which `npm run test:sim` runs by the thousand: the same seed is the same run, every promise holds,
// and two faults that are built in are noticed. All of them: simulated.long.test.ts.
// Long: more seeds
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONG } from '../lib/random'
import { imageOf, worldOf } from '../lib/simulated'

test('a seed is the same run twice, byte for byte, and another seed is another', async () => {
  const { compile, simulate } = await worldOf()
  const compiled = compile(await imageOf())
  const trace = async (seed: number): Promise<string[]> => {
    const lines: string[] = []
    const { failure } = await simulate(seed, compiled, { hours: 0.05, trace: line => void lines.push(line) })
    assert.equal(failure, undefined)
    return lines
  }
  const first = await trace(1)
  assert.ok(first.length > 500, `${first.length} lines`)
  const other = await trace(2)
  assert.deepEqual(await trace(1), first)
  assert.notDeepEqual(other, first)
})

test('every promise holds on the first seeds', async () => {
  const { compile, simulate } = await worldOf()
  const compiled = compile(await imageOf())
  for (let seed = 1; seed <= (LONG ? 60 : 4); seed++) {
    const { failure, counts } = await simulate(seed, compiled, { hours: 0.1 })
    assert.equal(failure, undefined, `npm run test:sim -- --seeds 1 --first ${seed} --hours 0.1`)
    assert.ok(counts.arrived > 0)
  }
})

for (const id of ['sync-left-out', 'answer-before-commit'])
  test(`the fault ${id} is noticed`, async () => {
    const { compile, simulate } = await worldOf()
    const compiled = compile(await imageOf(id))
    const failures: (string | undefined)[] = []
    for (let seed = 1; seed <= 10 && failures.at(-1) === undefined; seed++)
      failures.push((await simulate(seed, compiled, { hours: 0.1, mode: 'strict' })).failure)
    assert.ok(failures.at(-1), `${failures.length} seeds without a failure`)
  })
