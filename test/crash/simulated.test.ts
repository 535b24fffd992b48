// The simulated world, which `npm run test:sim` runs on any number of seeds: the same seed is the same run on either core, and two
// built-in faults are noticed. All of them: simulated.long.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulate } from '../lib/simulated'

test('a seed gives the same run twice and on either core, byte for byte, and another seed another run', async () => {
  // each seed runs twice, and fails where the traces differ
  const [first, other] = await simulate(2, { hours: 0.05 })
  assert.deepEqual([first?.failure, other?.failure], [undefined, undefined])
  assert.ok(first!.events > 500, `${first!.events} events`)
  assert.notEqual(other!.hash, first!.hash)
  const native = await simulate(2, { hours: 0.05 }, 'rscore')
  assert.deepEqual(
    native.map(({ hash }) => hash),
    [first!.hash, other!.hash],
    'gateways on rscore',
  )
})

for (const id of ['sync-left-out', 'answer-before-commit'])
  test(`the fault ${id} is noticed`, async () => {
    const results = await simulate(10, { hours: 0.1, mode: 'strict' }, id)
    assert.ok(results.at(-1)!.failure, `${results.length} seeds without a failure`)
  })
