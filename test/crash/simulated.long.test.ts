// The faults of test/sim/variants.mjs that it is known to notice, built into the gateway one after the other, are noticed by the simulated world within a bounded
// number of seeds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { imageOf, variants, worldOf } from '../lib/simulated'

/** what a fault may take; most are noticed by the first five */
const SEEDS = 30

test('faults built into the gateway are noticed', async t => {
  const { compile, simulate } = await worldOf()
  for (const { id, what } of await variants())
    await t.test(`${what} (${id})`, async () => {
      const compiled = compile(await imageOf(id))
      let failure: string | undefined
      for (let seed = 1; seed <= SEEDS && failure === undefined; seed++)
        failure = (await simulate(seed, compiled, { hours: 0.2, mode: 'strict' })).failure
      assert.ok(failure, `${SEEDS} seeds without a failure`)
    })
})
