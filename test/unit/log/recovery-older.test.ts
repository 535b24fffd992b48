// Logs of every format that was ever written (test/corpus/log, each made by the code of its day: three runs of eight facts): the
// facts, cursors and counters are those that were written, nothing counts as lost, a removed segment is noticed where the format
// reports, and the log goes on.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { decodeHeader } from '../../../src/log/segment'
import type { Fact } from '../../../src/pipeline/fact'
import { corpus, DIR, logOfCorpus, openLog } from './helpers'

/** What headers and chain.json have in each format, from the oldest. `fields`: of an older segment in a header. */
const FORMATS = [
  { date: '2026-11-21-first', fields: 4, counters: false, chain: false, runs: false, packets: 0 },
  { date: '2026-11-21-per-uplink', fields: 4, counters: true, chain: false, runs: false, packets: 0 },
  { date: '2026-11-22-chain', fields: 5, counters: true, chain: true, runs: false, packets: 0 },
  { date: '2026-11-26-ranges', fields: 5, counters: true, chain: true, runs: true, packets: 1 },
  { date: '2026-11-27-last-fact', fields: 6, counters: true, chain: true, runs: true, packets: 1 },
]

/** Fact `k`, from 1 on, as the script that made the logs appended it. */
const factOf = (k: number): Fact => ({
  id: `dev-${k % 3}`,
  state: 'ONLINE',
  tRaw: 1_710_000_000_000 + 1000 * k,
  aid: 7 + (k % 3),
  sensors: [
    { id: 'temp', status: 'OK', unit: 'K', value: k + 0.5 },
    { id: 'door', status: k % 4 ? 'OK' : 'ERROR', unit: '', value: k % 4 ? k % 2 : null },
  ],
  ...(k % 5 === 0 && { extras: { msg: `fact ${k}` } }),
})
const linkOf = (k: number) => (k % 2 ? { medium: 'local' } : { medium: 'UDP', address: '192.0.2.7:9999' })
const FACTS = Array.from({ length: 24 }, (_, k) => k + 1)

test('there is a log of each format', () => {
  assert.deepEqual(
    readdirSync(corpus).sort(),
    FORMATS.map(({ date }) => date),
  )
})

for (const { date, fields, counters, chain, runs, packets } of FORMATS) {
  test(`a log of ${date} is read, and goes on`, async () => {
    const files = logOfCorpus(date)
    const newest = files.segments(DIR).at(-1)!
    const { snapshot } = decodeHeader(files.read(`${DIR}/${newest}`))!.header
    const inChain = chain ? JSON.parse(files.read(`${DIR}/chain.json`).toString()) : {}
    assert.deepEqual(
      [snapshot.segments.map(one => one.length), 'counters' in snapshot, 'base' in inChain, 'runs' in inChain],
      [[fields, fields], counters, chain, runs],
      'the format',
    )
    const before = verify(DIR, files)
    assert.deepEqual([before.ok, before.records, before.gaps], [true, 24, []])

    const { log } = await openLog({ files })
    const records = [...log.read(1)]
    const facts = records.filter(({ kind }) => kind === 'fact')
    assert.deepEqual(
      facts.map(({ fact, link, quality, boot, wallMs }) => [fact, link, quality, boot, wallMs]),
      FACTS.map(k => [factOf(k), linkOf(k), 'synced', Math.ceil(k / 8), 1_710_000_000_000 + 1000 * k]),
    )
    assert.deepEqual(
      records.flatMap(({ clock }) => clock ?? []).map(({ offsetMs, source }) => [offsetMs, source]),
      [[250, 'ntp']],
    )
    assert.equal(records.filter(({ kind }) => kind === 'packet').length, packets)
    assert.equal(log.cleanStop, true)
    assert.deepEqual(log.losses, [])
    assert.equal(log.counter('acked:office'), counters ? 24 : undefined)
    assert.equal(log.factsAfter(0), 24)
    assert.equal(log.factsAfter(facts[15]!.seq), 8)
    if (date.endsWith('-per-uplink')) assert.equal(log.cursor('uplink:broker'), facts[6]!.seq)
    else assert.equal(log.cursor('uplinks'), 9)

    log.appendFact(factOf(25), linkOf(25), 'synced')
    await log.close()
    const after = verify(DIR, files)
    assert.deepEqual([after.ok, after.records, after.gaps], [true, 25, []])
    const again = (await openLog({ files })).log
    assert.deepEqual(
      [...again.read(1, { kinds: ['fact'] })].map(({ fact }) => fact),
      [...FACTS, 25].map(factOf),
    )
    assert.equal(again.cleanStop, true)
  })

  test(`of a log of ${date} a removed segment is reported`, async () => {
    const [, middle, newest] = logOfCorpus(date).segments(DIR)
    const baseOf = (name: string): number => Number(name.slice(0, 16))
    const lostWithout = async (...names: string[]) => {
      const files = logOfCorpus(date)
      for (const name of names) files.remove(`${DIR}/${name}`)
      const { log } = await openLog({ files })
      return log.losses.map(({ reason, from, to }) => [reason, from, to])
    }
    assert.deepEqual(await lostWithout(middle!), [['damaged', baseOf(middle!), baseOf(newest!) - 1]])
    // no header follows the newest segment: only chain.json names it
    const last = chain && JSON.parse(logOfCorpus(date).read(`${DIR}/chain.json`).toString()).last
    const behind = (name: string) => (chain ? [['damaged', baseOf(name), last]] : [])
    assert.deepEqual(await lostWithout(newest!), behind(newest!))
    assert.deepEqual(await lostWithout(middle!, newest!), behind(middle!))
  })
}
