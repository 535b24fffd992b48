// The faults of test/sim/variants.mjs that it is known to notice, built into the gateway one after the other, are noticed by the simulated world within a bounded
// number of seeds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulate, variants } from '../lib/simulated'

/** what a fault may take; most are noticed by the first five */
const SEEDS = 30

test('faults built into the gateway are noticed', async t => {
  for (const { id, what, media } of await variants())
    await t.test(`${what} (${id})`, async () => {
      const results = await simulate(SEEDS, { hours: 0.2, mode: 'strict', media }, id)
      assert.ok(results.at(-1)!.failure, `${SEEDS} seeds without a failure`)
    })
})
