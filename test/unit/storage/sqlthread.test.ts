// Where a worker of a database server continues in the log: by what the server has, and after what the log dropped.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Missed } from '../../../src/storage/missed-facts'
import { SqlThread } from '../../../src/storage/sqlthread'
import { until } from '../../lib/gateway'
import { factOf, LOCAL, openLog } from '../log/helpers'

const root = mkdtempSync(join(tmpdir(), 'os-node-sqlthread-'))
after(() => rmSync(root, { recursive: true, force: true }))

test('a server with newer records than the log belongs to another state of the log; an equal one, or one only read, does not', async t => {
  const { log, timers } = await openLog({ version: '1' })
  for (let k = 0; k < 3; k++)
    log.appendFact({ id: 'dev', state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid: 7, sensors: [] }, { medium: 'UDP' })
  await timers.advance(1100)
  const last = log.lastSeq
  assert.ok(last > 2)
  for (const [seq, foreign, applied] of [
    [last + 1, 1, 0],
    [last, 0, last],
    [last - 2, 0, last - 2],
    [undefined, 0, last],
  ] as const) {
    const script = join(root, `${seq}.js`)
    const ready = {
      type: 'ready',
      windows: [],
      seq,
      counts: { packets: 0, duplicates: 0, left: 0 },
      heap: 1,
      hole: false,
    }
    writeFileSync(
      script,
      `const { parentPort } = require('node:worker_threads')
       parentPort.on('message', () => undefined)
       parentPort.postMessage(${JSON.stringify(ready)})`,
    )
    const told: unknown[] = []
    const dead: Error[] = []
    let foreigns = 0
    const thread = new SqlThread({
      ...{ log, maxPackets: 100, maxBytes: 100_000, checked: new Set(), server: { script, setup: {} as never } },
      onApplied: (...what) => told.push(what),
      onForeign: () => foreigns++,
      onDead: error => dead.push(error),
    })
    t.after(() => thread.end())
    await until('it began', () => told.length + dead.length > 0)
    assert.deepEqual(
      [foreigns, dead.map(({ message }) => message)],
      [foreign, foreign ? ['the server has newer records of this log: this log was restored to an older state'] : []],
    )
    assert.deepEqual([thread.appliedSeq, told[0]], [applied, foreign ? undefined : [applied, false]], `${seq}`)
    assert.equal(thread.busy, seq === last - 2, 'is fed what the server lacks, and nothing where it only reads')
  }
})

test('what the log dropped unread is counted as missed and not sent as well, although it is still in memory', async t => {
  const { log } = await openLog({ maxBytes: 128 * 1024, segmentBytes: 16 * 1024, commitBytes: 1 })
  const script = join(root, 'counts.js')
  writeFileSync(
    script,
    `const { parentPort } = require('node:worker_threads')
     const counts = { packets: 0, duplicates: 0, left: 0 }
     const tell = message => parentPort.postMessage({ windows: [], counts, heap: 1, hole: false, ...message })
     parentPort.on('message', ({ type, bytes, length, upTo }) => {
       if (type !== 'batch') return
       counts.packets += Buffer.from(bytes, 0, length).toString('latin1').split('only-facts').length - 1
       tell({ type: 'applied', upTo, bytes })
     })
     tell({ type: 'ready', seq: 0 })`,
  )
  const missed = new Missed(log, [], 0)
  log.pin(
    () => undefined,
    segment => missed.dropping(segment),
  )
  const thread = new SqlThread({
    ...{ log, missed, maxPackets: 100, maxBytes: 100_000, checked: new Set(), server: { script, setup: {} as never } },
    onApplied: () => undefined,
    onDead: error => assert.fail(error),
  })
  t.after(() => thread.end())
  await until('it began', () => thread.appliedSeq >= log.committedSeq)
  const facts = 2500
  for (let k = 0; k < facts; k++) log.appendFact(factOf(k, 'only-facts'), LOCAL)
  await log.flush()
  assert.ok(missed.facts > 0 && log.firstSeq < facts, `${missed.facts} dropped, up to ${log.firstSeq}`)
  const kept = log.reader(thread.appliedSeq + 1, { kinds: ['fact'] }).next()!.seq
  assert.ok(kept < log.firstSeq, `the log still has ${kept} in memory`)
  thread.feed()
  await until('it has all', () => thread.appliedSeq === log.committedSeq)
  assert.equal(thread.counts.packets + missed.facts, facts)
})
