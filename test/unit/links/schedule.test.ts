import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import { systemTimers } from '../../../src/lib/timers'
import type { Source } from '../../../src/links/contracts'
import { Schedule } from '../../../src/links/schedule'

const quiet = {
  ...{ clock: systemClock, timers: systemTimers, logger: silentLogger },
  ...{ onReadings: () => undefined, complain: () => undefined, lost: () => undefined },
}

const sourceOf = (name: string, intervalMs: number, read: () => void): Source =>
  ({
    ...{ name, type: 'test', intervalMs, counters: { rx: 0, tx: 0, errors: 0 } },
    ...{ open: async () => undefined, close: async () => undefined },
    read: async () => {
      read()
      return []
    },
  }) as unknown as Source

test('sources with intervals of whole seconds that started at different times are read in one turn of the loop', async () => {
  let first = ''
  const together = new Promise<string>(resolve => {
    const one = new Schedule(
      sourceOf('one', 1000, () => {
        first = 'one'
        setImmediate(() => {
          first = ''
        })
      }),
      quiet,
    )
    let reads = 0
    // their timers keep no program alive
    const alive = setInterval(() => undefined, 100)
    const other = new Schedule(
      sourceOf('other', 1000, () => {
        // on a busy machine one timer may be a millisecond late once
        if (++reads < 2 || (first === '' && reads < 5)) return
        resolve(first)
        clearInterval(alive)
        one.stop()
        other.stop()
      }),
      quiet,
    )
    one.start()
    setTimeout(() => other.start(), 30)
  })
  assert.equal(await together, 'one')
})

test('a bus slower than the interval is read at the next multiple after its answer, never twice at the same time', async () => {
  let asking = 0
  let most = 0
  let reads = 0
  const slow = sourceOf('slow', 2, () => undefined)
  slow.read = async () => {
    most = Math.max(most, ++asking)
    await new Promise(resolve => setTimeout(resolve, 7))
    asking--
    reads++
    return []
  }
  const schedule = new Schedule(slow, quiet)
  schedule.start()
  await new Promise(resolve => setTimeout(resolve, 120))
  schedule.stop()
  assert.equal(most, 1)
  assert.ok(
    reads >= 2 && schedule.tally.skipped >= reads,
    `${reads} reads, ${schedule.tally.skipped} turns without one`,
  )
})
