// The faults of test/sim/variants.mjs that are known to be noticed, built into the gateway one after the other, are noticed by the simulated world
// within a limited number of seeds. A quarter run covers every fourth, beginning by the commit.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QUARTER, TURN } from '../lib/random'
import { simulate, variants } from '../lib/simulated'

/** seeds that a fault may take; most are noticed by the first five */
const SEEDS = 50

test('the simulated world notices faults built into the gateway', async t => {
  const all = (await variants()).filter((_, k) => !QUARTER || k % 4 === TURN % 4)
  for (const { id, what, media, aim, relays, ids } of all)
    await t.test(`${what} (${id})`, async () => {
      const results = await simulate(SEEDS, { hours: 0.2, mode: 'strict', media, aim, relays, ids }, id)
      assert.ok(results.at(-1)!.failure, `${SEEDS} seeds without a failure`)
    })
})
