// Counts of sources in the log: what a kill, a power cut and a clean stop lose, and how many records and bytes they take.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeptCounts } from '../../../../src/gateway/intake/counts'
import type { LogRecord } from '../../../../src/log'
import { factOf, LOCAL, openLog } from '../../log/helpers'
import type { MemFiles } from '../../log/memfiles'

const INTERVAL_MS = 1000
/** ms between two pulses */
const PULSE_MS = 7

async function counting(files?: MemFiles) {
  const made = await openLog({ commitIntervalMs: INTERVAL_MS, ...(files && { files }) })
  const counts = new KeptCounts(made.log).of('shed', () => undefined)
  const records = (): LogRecord[] => [...made.log.read(1, { committedOnly: false })].filter(({ counter }) => counter)
  /** `pulses` of them, with time for one commit interval after every 143 */
  const pulse = async (from: number, pulses: number): Promise<void> => {
    for (let k = 1; k <= pulses; k++) {
      counts.keep('gas', from + k)
      await made.timers.advance(PULSE_MS)
    }
  }
  return { ...made, counts, records, pulse }
}

test('a count is committed one interval after it changed, as one record, and an unchanged count is not logged', async t => {
  const { log, timers, counts, records, files, pulse } = await counting()
  counts.keep('gas', 0)
  await timers.advance(60_000)
  assert.deepEqual(records(), [])
  const [syncs, bytes] = [files.syncs, files.bytes]
  await pulse(0, 142)
  assert.equal(counts.kept('gas'), undefined)
  await timers.advance(INTERVAL_MS - 142 * PULSE_MS)
  assert.equal(counts.kept('gas'), 142)
  assert.deepEqual([log.committedSeq, records().length, files.syncs - syncs], [log.lastSeq, 1, 1])
  t.diagnostic(`${files.bytes - bytes} bytes for a count that moved`)
  assert.ok(files.bytes - bytes < 80)
  const after = [files.syncs, files.bytes, log.lastSeq]
  counts.keep('gas', 142)
  await timers.advance(3_600_000)
  assert.deepEqual([files.syncs, files.bytes, log.lastSeq], after)
})

test('a kill or a power cut at any moment loses at most the pulses of one commit interval', async () => {
  for (const facts of [false, true])
    for (let pulses = 1; pulses < 1500; pulses += 37) {
      const { log, files, pulse } = await counting()
      for (let k = 0; k < pulses; k++) {
        // other readings start commits at other times
        if (facts && k % 50 === 0) log.appendFact(factOf(k), LOCAL)
        await pulse(k, 1)
      }
      for (const left of [files.copy(), files.afterPowerCut()]) {
        const again = await counting(left)
        const kept = again.counts.kept('gas') ?? 0
        assert.ok(kept <= pulses && (pulses - kept) * PULSE_MS <= INTERVAL_MS, `${kept} of ${pulses}`)
      }
    }
})

test('pulses during a slow sync are in the next commit; a flush and a stop leave none', async () => {
  const { log, files, timers, counts, pulse } = await counting()
  let release: () => void = () => undefined
  files.slow = () => new Promise(resolve => (release = resolve))
  await pulse(0, 200)
  files.slow = () => Promise.resolve()
  counts.keep('gas', 201)
  release()
  await timers.advance(0)
  await timers.advance(INTERVAL_MS)
  assert.equal(counts.kept('gas'), 201)
  counts.keep('gas', 202)
  await log.flush()
  assert.equal((await counting(files.afterPowerCut())).counts.kept('gas'), 202)
  await log.close()
  assert.equal((await counting(files)).counts.kept('gas'), 202)
})

test('a source created later in a run starts over, and its lower count replaces the old one', async () => {
  const { log, timers, pulse } = await counting()
  await pulse(0, 500)
  await timers.advance(INTERVAL_MS)
  const later = new KeptCounts(log).of('shed')
  assert.deepEqual([later.kept('gas'), later.logged('gas', 'm3')], [undefined, undefined])
  later.keep('gas', 0)
  await timers.advance(INTERVAL_MS)
  assert.equal(log.counter('count shed gas'), 0)
})
