// The simulated world, which `npm run test:sim` runs on as many seeds as wanted: the same seed is the same run, and two faults that are
// built in are noticed. All of them: simulated.long.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { imageOf, worldOf } from '../lib/simulated'

test('a seed is the same run twice, byte for byte, and another seed is another', async () => {
  const { compile, simulate } = await worldOf()
  const compiled = compile(await imageOf())
  const trace = async (seed: number): Promise<string[]> => {
    const lines: string[] = []
    await simulate(seed, compiled, { hours: 0.05, trace: line => void lines.push(line) })
    return lines
  }
  const first = await trace(1)
  assert.ok(first.length > 500, `${first.length} lines`)
  const other = await trace(2)
  assert.deepEqual(await trace(1), first)
  assert.notDeepEqual(other, first)
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
