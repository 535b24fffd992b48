import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { DIR, factOf, factsOf, LOCAL, openLog, random } from './helpers'

test('the log never takes more than max_bytes, and the counters equal the ledger', async () => {
  for (let seed = 1; seed <= 6; seed++) {
    const next = random(seed)
    const maxBytes = 256 * 1024 + Math.floor(next() * 512 * 1024)
    const options = { maxBytes, segmentBytes: 32 * 1024 + Math.floor(next() * 64 * 1024) }
    let { log, files } = await openLog(options)
    let given = 0
    for (let round = 0; round < 150; round++) {
      for (let k = Math.floor(next() * 200); k >= 0; k--) {
        log.appendFact(factOf(given++, 'x'.repeat(Math.floor(next() * 200))), LOCAL)
      }
      if (next() < 0.1) log.appendCursor(`uplink-${Math.floor(next() * 5)}`, log.lastSeq)
      await log.flush()
      const blocks = [...files.files.values()].reduce((sum, f) => sum + Math.ceil(f.data.length / 4096) * 4096, 0)
      assert.ok(blocks <= maxBytes, `${blocks} of ${maxBytes}`)
      const segments = files.segments(DIR).reduce((sum, name) => sum + files.size(`${DIR}/${name}`), 0)
      assert.equal(log.status().bytes, segments)
      if (next() < 0.05) ({ log, files } = await openLog({ ...options, files: files.afterPowerCut() }))
    }
    const kept = factsOf(log)
    const { dropped, lost, damaged } = log.status()
    assert.ok(dropped > 0)
    assert.equal(dropped + kept.length, given)
    assert.deepEqual([lost, damaged], [dropped, 0])
    const ledger = log.losses.filter(r => r.reason === 'dropped')
    assert.equal(
      ledger.reduce((sum, r) => sum + r.records, 0),
      dropped,
    )
    assert.ok(ledger.at(-1)!.to < log.firstSeq)
    assert.deepEqual(
      kept,
      Array.from({ length: kept.length }, (_, k) => given - kept.length + k),
    )
    await log.flush()
    const found = verify(DIR, files)
    assert.deepEqual(
      [found.ok, found.lost, found.first_seq, found.last_seq],
      [true, dropped, log.firstSeq, log.lastSeq],
    )
  }
})

test('cursors and identity outlive the segments they were written to', async () => {
  const { log, files } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024 })
  log.appendCursor('slow', 1)
  log.appendIdentity({ device_id: 'gw' })
  log.appendCounter('tid', 12)
  for (let k = 0; k < 8000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  await log.flush()
  assert.ok(log.firstSeq > 100)
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.equal(again.cursor('slow'), 1)
  assert.deepEqual(again.identity, { device_id: 'gw' })
  assert.equal(again.counter('tid'), 12)
})

test('segments dropped just before a power cut are still counted', async () => {
  const options = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024 }
  const { log, files } = await openLog(options)
  for (let k = 0; k < 3000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  const copy = files.afterPowerCut()
  copy.remove(`${DIR}/${copy.segments(DIR)[0]!}`)
  const { log: again } = await openLog({ ...options, files: copy })
  assert.equal(again.status().dropped + factsOf(again).length, 2901)
})

test('max_age_s drops what is older, but not on the word of a clock that cannot be believed', async () => {
  const { log, timers, clock } = await openLog({ maxAgeS: 800, segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
  const hour = async (): Promise<void> => {
    for (let k = 0; k < 36; k++) {
      log.appendFact(factOf(k), LOCAL)
      await timers.advance(100_000)
    }
  }
  log.setQuality('synced')
  await hour()
  const kept = factsOf(log).length
  assert.ok(kept >= 8 && kept <= 11, `${kept}`)
  log.setQuality('unsynced')
  clock.wallMs += 50 * 365 * 86_400_000
  log.appendFact(factOf(0), LOCAL)
  await timers.advance(1000)
  assert.equal(factsOf(log).length, kept + 1)
})

test('a pin holds segments against the age, live data wins against the bytes', async () => {
  const { log, timers } = await openLog({ maxAgeS: 10, maxBytes: 256 * 1024, segmentBytes: 32 * 1024 })
  log.setQuality('synced')
  log.pin(() => 1)
  for (let k = 0; k < 20; k++) {
    log.appendFact(factOf(k), LOCAL)
    await timers.advance(10_000)
  }
  assert.equal(factsOf(log).length, 20)
  log.pin(() => undefined)
  log.appendFact(factOf(20), LOCAL)
  await timers.advance(10_000)
  assert.ok(factsOf(log).length < 5)
  log.pin(() => 1)
  for (let k = 0; k < 8000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  await log.flush()
  assert.equal(log.status().state, 'ok')
  assert.equal(factsOf(log).at(-1), 7999)
})

test('when_full "refuse" drops nothing while there is no cursor', async () => {
  const { log } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' })
  let taken = 0
  let refused = 0
  for (let k = 0; k < 20_000 && refused === 0; k++) {
    try {
      log.appendFact(factOf(k), LOCAL)
      taken++
    } catch (error) {
      assert.equal((error as { code: string }).code, 'DISK_FULL')
      refused++
    }
    if (k % 50 === 0) await log.flush()
  }
  await log.flush()
  assert.equal(refused, 1)
  assert.deepEqual(
    factsOf(log),
    Array.from({ length: taken }, (_, k) => k),
  )
  assert.equal(log.status().dropped, 0)
})

test('when_full "refuse" keeps what no cursor has passed and refuses new facts until one has', async () => {
  const { log } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' })
  log.appendCursor('main', log.lastSeq)
  log.appendCounter('tid', 1)
  let taken = 0
  const fill = async (): Promise<void> => {
    for (let k = 0; k < 20_000; k++) {
      try {
        log.appendFact(factOf(taken), LOCAL)
        taken++
      } catch (error) {
        assert.equal((error as { code: string }).code, 'DISK_FULL')
        return
      }
      if (k % 50 === 0) await log.flush()
    }
    assert.fail('never full')
  }
  await fill()
  await log.flush()
  assert.equal(factsOf(log).length, taken)
  assert.equal(log.status().refused, 1)
  assert.equal(log.status().dropped, 0)
  const before = taken
  // the uplink catches up: cursors still go in, and room comes back once they are on the medium (D24)
  log.appendCursor('main', log.lastSeq)
  assert.throws(() => log.appendFact(factOf(taken), LOCAL), { code: 'DISK_FULL' })
  assert.equal(log.status().dropped, 0)
  await log.flush()
  await fill()
  assert.ok(taken > before)
  assert.equal(log.status().state, 'ok')
})
