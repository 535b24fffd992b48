// What the simulated world holds against a log: a committed reading that the log lost and named may come again, and is no loss of the log
// while its new record is not committed. Then it must be there.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LossRange } from '../../src/log/record'
import { Truth } from '../sim/truth'
import type { Machine, World } from '../sim/world'

function upstream() {
  const failures: string[] = []
  const machine = { number: 0, name: 'upstream', isUpstream: true, starts: 1, hasRotted: () => false, happened() {} }
  const plan = {
    gateways: 1,
    ways: [
      { to: 0, media: [] },
      { to: 0, media: ['UDP'] },
    ],
    diskMode: 'strict',
    faults: [],
  }
  const engine = { now: 0 }
  const truth = new Truth({ plan, engine, broken: (text: string) => failures.push(text) } as unknown as World)
  const rows = truth.reading({ number: 1, wall: 1000, wrongBy: 0 } as Machine)
  const sensors = rows.map(([id, status, value, unit]) =>
    unit === 'Cel' ? { id, status, value: value + 273.15, unit: 'K' } : { id, status, value, unit },
  )
  const fact = { id: 'GW1', state: 'ONLINE', tRaw: 1000, aid: 7, sensors }
  truth.device('GW1').times.took(1, 1000, 1000)
  /** A start of the log, with these records. */
  const open = (seqs: readonly number[], losses: readonly Partial<LossRange>[] = []) => {
    let commit: (seq: number) => void = () => undefined
    let next = 0
    const log = {
      degraded: false,
      firstSeq: losses.length > 0 ? losses[0]!.to! + 1 : 1,
      losses,
      appendFact: () => next,
      appendClock: () => 0,
      appendCursor: () => 0,
      onCommit: (listener: typeof commit) => (commit = listener),
      read: () => seqs.map(seq => ({ seq, fact })),
    }
    type Gateway = Parameters<Truth['opened']>[1]
    truth.opened(machine as unknown as Machine, { log } as unknown as Gateway)
    const append = (seq: number) => {
      next = seq
      log.appendFact(...([fact] as unknown as []))
    }
    return { append, commit: (seq: number) => commit(seq) }
  }
  const die = () => truth.died(machine as unknown as Machine)
  return { failures, open, die }
}

const DROPPED = [{ reason: 'dropped', from: 1, to: 50 }] as const

test('a reading that was dropped and comes again may be lost before its commit, and not after it', () => {
  const { failures, open, die } = upstream()
  const first = open([])
  first.append(20)
  first.commit(20)
  die()
  const second = open([], DROPPED)
  second.append(80)
  die()
  const third = open([], DROPPED)
  assert.deepEqual(failures, [])
  third.append(90)
  third.commit(90)
  die()
  open([], DROPPED)
  assert.deepEqual(failures, [
    'upstream: the committed reading 1 of GW1 (seq 90) is gone after start 1, and named nowhere',
  ])
})

test('a reading that the log has twice, or lost without naming it, is a failure', () => {
  const { failures, open, die } = upstream()
  const log = open([])
  log.append(20)
  log.commit(20)
  log.append(21)
  assert.match(failures.splice(0).join(), /^upstream has reading 1 of GW1 twice: seq 20 and 21$/)
  die()
  open([])
  assert.match(failures.join(), /gone after start 1, and named nowhere$/)
})
