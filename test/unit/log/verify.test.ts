// `log verify`: steps, and selections by device and time. Damage itself: recovery.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exportFacts, FlashLog, verify, verifying } from '../../../src/log'
import { ManualClock } from '../../lib/manual'
import { DIR, factOf, LOCAL, ManualTimers } from './helpers'
import { MemFiles } from './memfiles'

const START = 1_800_000_000_000
const HOUR = 3_600_000
const BAD_DAY = [START + HOUR * 20, START + HOUR * 21] as const

/** A fact an hour, three devices in turn, about one segment per commit; t_raw is the time it was logged. */
async function hours(count: number, maxBytes = 1024 * 1024): Promise<MemFiles> {
  const files = new MemFiles()
  const clock = new ManualClock()
  clock.advance(START - clock.wall())
  const log = await FlashLog.open({
    ...{ dir: DIR, files, clock, timers: new ManualTimers(clock) },
    ...{ segmentBytes: 32 * 1024, maxBytes },
  })
  for (let k = 0; k < count; k++) {
    log.appendFact({ ...factOf(k, 'x'.repeat(2000)), tRaw: clock.wall() }, LOCAL, 'synced')
    if (k % 4 === 3) await log.flush()
    clock.advance(HOUR)
  }
  await log.close()
  return files
}

/** Inverts a byte in the record of fact `k` (the first has seq 2). */
function flip(files: MemFiles, k: number): void {
  for (const name of files.segments(DIR)) {
    const { data } = files.files.get(`${DIR}/${name}`)!
    for (let at = data.indexOf('xxxx'); at >= 0; at = data.indexOf('dev-', at + 2000)) {
      const seqAt = data.lastIndexOf('dev-', at)
      if (seqAt >= 0 && k-- === 0) {
        data[seqAt + 20]! ^= 0x20
        return
      }
    }
  }
  assert.fail('no such record')
}

test('verify runs in steps, each with the bytes that are read', async () => {
  const files = await hours(60)
  const names = files.segments(DIR)
  const total = names.reduce((sum, name) => sum + files.size(`${DIR}/${name}`), 0)
  const steps = verifying(DIR, files)
  const seen: number[] = []
  for (;;) {
    const { done, value } = steps.next()
    if (done) {
      assert.deepEqual(value, verify(DIR, files))
      break
    }
    assert.equal(value[1], total)
    seen.push(value[0])
  }
  assert.equal(seen.length, names.length)
  assert.ok(names.length > 3)
  assert.equal(seen.at(-1), total)
})

test('a selection counts the facts of a device and a time, both ends included', async () => {
  const files = await hours(60)
  const count = (selection: Parameters<typeof verify>[2]): number[] => {
    const { ok, records, first_seq, last_seq } = verify(DIR, files, selection)
    assert.equal(ok, true)
    return [records, first_seq, last_seq]
  }
  const whole = count({})
  assert.equal(whole[0], 60)
  assert.equal(count({ device: 'dev-1' })[0], 20)
  assert.equal(count({ since: START + 10 * HOUR, until: START + 19 * HOUR })[0], 10)
  assert.equal(count({ since: START + 10 * HOUR, until: START + 19 * HOUR, device: 'dev-2' })[0], 3)
  assert.deepEqual(count({ device: 'nobody' }), [0, 0, 0])
})

test('damage counts if it was logged in that time, whatever the device', async () => {
  const files = await hours(60)
  flip(files, 20)
  const whole = verify(DIR, files)
  assert.deepEqual([whole.ok, whole.damaged, whole.pieces.length, whole.records], [false, 1, 1, 59])
  const [since, until] = BAD_DAY
  for (const selection of [{ since, until }, { since }, { until }, { since, until, device: 'dev-0' }]) {
    const { ok, damaged, pieces } = verify(DIR, files, selection)
    assert.deepEqual([ok, damaged, pieces.length], [false, 1, 1], JSON.stringify(selection))
  }
  for (const selection of [{ since: START + 30 * HOUR }, { until: START + 10 * HOUR }]) {
    const { ok, damaged, pieces } = verify(DIR, files, selection)
    assert.deepEqual([ok, damaged, pieces.length], [true, 0, 0], JSON.stringify(selection))
  }
})

test('losses of the ledger count by their position too', async () => {
  const files = await hours(400, 256 * 1024)
  const whole = verify(DIR, files)
  assert.ok(whole.lost > 0 && whole.ok, 'a full log dropped its oldest')
  assert.equal(verify(DIR, files, { since: START + 399 * HOUR }).lost, 0)
  assert.equal(verify(DIR, files, { until: START + HOUR }).lost, whole.lost)
})

test('records of a clock that was not set belong to no time selection', async () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  clock.advance(1000 - clock.wall())
  const log = await FlashLog.open({ dir: DIR, files, clock, timers: new ManualTimers(clock) })
  for (let k = 0; k < 9; k++) log.appendFact(factOf(k, 'x'.repeat(2000)), LOCAL)
  await log.close()
  flip(files, 4)
  assert.equal(verify(DIR, files, { since: START }).ok, false)
})

test('an export skips segments that the gateway drops meanwhile, before the first row and between two', async () => {
  for (const when of [0, 6]) {
    const files = await hours(96)
    const names = files.segments(DIR)
    const all = [...exportFacts(DIR, 0, files)]
    const rows: Record<string, unknown>[] = []
    const drop = (count: number): void => {
      for (const name of names.slice(0, count)) files.remove(`${DIR}/${name}`)
    }
    const progress = (): void => undefined
    const reading = exportFacts(DIR, 0, files, progress)
    if (when === 0) {
      // behind the listing
      const { size } = files
      files.size = path => {
        drop(3)
        return size.call(files, path)
      }
    }
    for (const row of reading) {
      rows.push(row)
      if (rows.length === when) drop(names.length - 1)
    }
    const kept = all.filter(row => rows.some(({ seq }) => seq === row.seq))
    assert.deepEqual(rows, kept)
    assert.equal(rows.at(-1)?.seq, all.at(-1)?.seq, 'the newest segment is there')
    assert.ok(rows.length < all.length && rows.length > 0)
  }
})

test('segments that the gateway drops while the log is verified are no damage', async () => {
  const files = await hours(96)
  const names = files.segments(DIR)
  const steps = verifying(DIR, files)
  steps.next()
  for (const name of names.slice(0, 3)) files.remove(`${DIR}/${name}`)
  let step = steps.next()
  while (!step.done) step = steps.next()
  assert.deepEqual([step.value.ok, step.value.damaged, step.value.pieces], [true, 0, []])
})
