// Tests run inside the rig: as root, with a separate clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inTheRig, setClock } from '../lib/rig'

inTheRig(() => {
  for (const at of ['1971-01-01T00:00:00Z', '2076-05-04T03:02:01Z'])
    test(`the clock can be ${at}, and the monotonic clock is not affected`, () => {
      const before = performance.now()
      setClock(Date.parse(at))
      assert.ok(Math.abs(Date.now() - Date.parse(at)) < 10_000)
      assert.ok(performance.now() - before < 10_000)
    })
})
