// The parts of an uplink alone, compared with uplink-parts-trace.txt: its secure session, the alarms before their turn, the ranges
// ahead of the cursor, oversized facts, and the recently sent frames.
import { test } from 'node:test'
import { AheadRanges } from '../../../../src/gateway/uplink/ahead-ranges'
import { Alarms, alarmCheck } from '../../../../src/gateway/uplink/alarms'
import { Encoders } from '../../../../src/gateway/uplink/encoders'
import type { FactRecord, Item } from '../../../../src/gateway/uplink/lane'
import { PassedFacts } from '../../../../src/gateway/uplink/passed-facts'
import { UplinkSession } from '../../../../src/gateway/uplink/session'
import { silentLogger } from '../../../../src/lib/logger'
import { buildNack, buildPing, buildSecureChannelAck, buildSecureDictReady } from '../../../../src/protocol/control'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'
import type { RefusedFrame } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { ManualClock } from '../../../lib/manual'
import { MemLog } from '../../../lib/memlog'
import { dice, outcome, Trace } from '../../../lib/trace'
import { units } from '../../../lib/uplinkworld'

const trace = new Trace('unit/gateway/uplink/uplink-parts-trace.txt')
const { say } = trace
const course = trace.course.bind(trace)

/** A session whose client and encoders only record their calls, and answer as `answers` says. */
function sessionOf() {
  const said: string[] = []
  const answers = {
    now: 0,
    keys: new Set<number>(),
    plain: true,
    due: true,
    accepts: true,
    refusal: '' as '' | 'keyed' | 'held',
    wasSent: true,
    size: 3,
  }
  const note =
    <T>(name: string, value: () => T) =>
    (...args: unknown[]): T => {
      said.push(`${name} ${JSON.stringify(args)}`)
      return value()
    }
  const nothing = (): void => undefined
  const session = new UplinkSession({
    client: {
      outboundKey: (aid: number) => (answers.keys.has(aid) ? new Uint8Array(1) : null),
      mayPlain: () => answers.plain,
      keyRequestDue: note('due?', () => answers.due),
      plaintextSent: note('plaintext', nothing),
      onDictReady: note('dict', () => answers.accepts),
      onChannelAck: note('channel', nothing),
      onPlaintextRefused: note('plaintext refused', () => answers.refusal),
      onBadKey: note('bad key', () => answers.accepts),
      useOtherKey: () => false,
      sessions: {
        getSessionKey: (aid: number) => answers.keys.has(aid),
        save: note('save', nothing),
        get size() {
          return answers.size
        },
      },
    } as never,
    encoders: {
      keyRequest: note('request', () => new Uint8Array(2)),
      needFull: note('need full', nothing),
      keyed: note('keyed', nothing),
      keyFrames: note('key frames', nothing),
      wasSent: note('sent?', () => answers.wasSent),
      aids: () => [1, 2],
    } as never,
    logger: { info: note('info', nothing), warn: note('warn', nothing) } as never,
    send: note('send', async () => true),
    mono: () => answers.now,
    now: () => 1_710_000_000_000.9 + answers.now,
    degraded: note('degraded', nothing),
    refused: note('refused', nothing),
  })
  const done = (): string[] => said.splice(0)
  return { session, answers, done }
}
const fact = (aid: number) => ({ id: 'D', state: 'ONLINE', tRaw: 5, aid, sensors: [] })

test('the parts of an uplink behave as uplink-parts-trace.txt has it', () => {
  say('# plaintext without a key: how many go, in rounds, where the upstream acknowledges and where it does not')
  for (const acknowledges of [true, false]) {
    const { session, answers } = sessionOf()
    session.opened(acknowledges)
    /** at each time of the list: how many are sent, of which the upstream acknowledges one in four */
    const went: unknown[] = []
    const edges = [
      0, 1, 499, 500, 999, 1000, 10_999, 11_000, 11_499, 11_500, 60_499, 60_500, 60_999, 61_000, 70_999, 71_000,
    ]
    const later = [71_499, 71_500, 81_999, 82_000, 191_000, 191_500, 202_000, 431_500, 442_000, 4_000_000, 4_011_000]
    for (const now of [...edges, ...later, ...Array.from({ length: 40 }, (_, k) => 5_000_000 + k * 1_800_000)]) {
      answers.now = now
      let count = 0
      while (count < 40 && session.mayGo(fact(7))) {
        session.sentPlain(7)
        if (count++ % 4 === 3) session.ackedPlain(7)
      }
      went.push([now, count, session.wakeAt])
      if (now === 11_500) for (let k = 0; k < 99; k++) session.ackedPlain(7)
    }
    say(`acknowledges: ${acknowledges}`, went)
    /** how many are sent at that time */
    const at = (now: number): number => {
      answers.now = now
      let count = 0
      for (; count < 40 && session.mayGo(fact(7)); count++) session.sentPlain(7)
      for (let k = 0; k < 99; k++) session.ackedPlain(7)
      return count
    }
    // a round begins, and the next one an hour after its end, to the millisecond
    let begun = 100_000_000
    while (at(begun) === 40) begun += 1000
    say('the hour between two rounds', [at(begun + 11_000 + 3_599_999), at(begun + 11_000 + 3_600_000)])
  }

  say('# what a session asks, answers and reports')
  const { session, answers, done } = sessionOf()
  const { below, chance, pick } = dice(23)
  const step = (): unknown => {
    answers.now += pick([0, 1, 100, 500, 1000, 20_000])
    if (chance(0.1)) answers.plain = !answers.plain
    answers.due = chance(0.8)
    answers.accepts = chance(0.7)
    answers.wasSent = chance(0.7)
    answers.refusal = pick(['', '', 'keyed', 'held'])
    answers.size = pick([1, 16, 17])
    const aid = 1 + below(3)
    const act = below(12)
    let got: unknown
    if (act < 4) got = session.mayGo(fact(aid))
    else if (act === 4) session.sentPlain(aid)
    else if (act === 5) session.ackedPlain(aid)
    else if (act === 6 && chance(0.3)) {
      got = session.received(buildSecureDictReady(aid, 1_710_000_000), 'up:1')
      if (answers.accepts) answers.keys.add(aid)
    } else if (act === 7) got = session.received(buildSecureChannelAck(aid), 'up:2')
    else if (act === 8)
      got = session.received(buildNack(0, `${pick(['NEED_FULL', 'BAD_KEY'])};${aid};3;77;00ff`), 'up:3')
    else if (act === 9) got = session.received(pick([buildNack(0, 'no'), buildPing(4)]), 'up:4')
    else if (act === 10 && chance(0.2)) session.opened(chance(0.5))
    else if (act === 11 && chance(0.3)) answers.keys.delete(aid)
    if (chance(0.05)) session.save(chance(0.5))
    return [act, got, done(), session.wakeAt, session.report()]
  }
  for (let k = 0; k < 80; k++) trace.lines.push(outcome(step))
  course('session', 3000, 300, step)

  say('# key frames where time on the air is bounded')
  {
    const clock = new ManualClock()
    const encoders = new Encoders(
      { name: 'up', diffBase: 'sticky', frames: 'auto', fullEvery: 1000, fullIntervalS: 1, precision: 4 },
      {
        log: { counter: () => undefined, appendCounter: () => 1, committed: async () => undefined } as never,
        clock,
        logger: silentLogger,
        units,
        client: new SecureClient({ clock }),
        recent: new SentFrames(),
        changed: () => undefined,
        airtime: { of: (bytes: number) => (bytes > 40 ? 1000 : 10), share: 0.1 } as never,
      },
    )
    const cmds = Array.from({ length: 200 }, (_, k) => {
      clock.advance(500)
      const sensors = [{ id: 'a', status: 'OK', unit: 'K', value: k }]
      return encoders.encode({ ...fact(7), tRaw: clock.wall(), sensors }, false, 1400, 1).cmd
    })
    say(
      'key frames',
      cmds.flatMap((cmd, k) => (cmd === 0x3f ? [k * 500] : [])),
    )
  }

  say('# alarms before their turn')
  const check = (statuses: string[], state: string, status: string): boolean =>
    alarmCheck(statuses)({
      ...fact(1),
      state,
      sensors: [
        { id: 'a', status: 'OK', unit: '', value: 1 },
        { id: 'b', status, unit: '', value: 1 },
      ],
    })
  for (const statuses of [[], ['alarm'], ['ALARM', 'Low']])
    say(
      `${statuses}`,
      ['OK', 'alarm', 'LOW'].flatMap(text => [check(statuses, text, 'OK'), check(statuses, 'OK', text)]),
    )
  const log = new MemLog()
  log.isAlarm = ({ tRaw }) => tRaw % 3 === 0
  const append = (): number => log.appendFact({ ...fact(1), tRaw: log.lastSeq + 1 }, { medium: 'local' })
  const itemOf = (seq: number): Item => ({
    seq,
    local: true,
    round: 0,
    fact: fact(1),
    done: false,
    again: false,
    plain: false,
    packet: null,
  })
  {
    const alarms = new Alarms(log.asLog, 0)
    const items: Item[] = []
    let front = 1
    course('alarms', 900, 100, () => {
      if (chance(0.5)) append()
      if (chance(0.3)) front = Math.min(log.lastSeq + 1, front + below(4))
      const taken = below(log.lastSeq + 1)
      const head = alarms.head(front, seq => seq === taken)
      if (head && chance(0.5)) {
        items.push(itemOf(head.seq))
        alarms.take(items.at(-1)!)
      }
      if (items.length > 0 && chance(0.3)) pick(items).done = true
      const reached = chance(0.4) ? alarms.reached(pick([front, taken, items[0]?.seq ?? 1])) : undefined
      if (chance(0.04)) alarms.rewind(front - 1)
      return [head?.seq, reached?.seq, reached?.done]
    })
    const many = new MemLog()
    many.isAlarm = () => true
    for (let k = 0; k < 4200; k++) many.appendFact(fact(1), { medium: 'local' })
    const full = new Alarms(many.asLog, 0)
    let count = 0
    for (let head = full.head(1, () => false); head; head = full.head(1, () => false), count++)
      full.take(itemOf(head.seq))
    say('at most', count)
    say('one reached', [full.reached(1)?.seq, full.head(2, () => false)?.seq])
  }

  say('# ranges ahead of the cursor')
  {
    const kept = new MemLog()
    let ranges = new AheadRanges('up', kept.asLog, 0)
    let top = 0
    course('ranges', 600, 50, () => {
      const from = top + 2 + below(3)
      const range = { from, to: from - 1 + below(9) }
      if (chance(0.5)) ranges.add(range)
      top += below(9)
      if (chance(0.1)) ranges.passed(top - 20 + below(12))
      const written =
        chance(0.3) && ranges.save(chance(0.5) ? { from: top + 30, to: top + 33 } : null, top - 5 + below(30))
      if (chance(0.05)) ranges = new AheadRanges('up', kept.asLog, top - 20)
      const seqs = Array.from({ length: 12 }, (_, k) => ranges.of(top - k)?.from)
      return [written, ranges.list, seqs, [...kept.counters]]
    })
  }

  say('# oversized facts')
  for (const seed of [1, 2, 3]) {
    const sizes = dice(seed)
    const source = new MemLog()
    const size: number[] = [0]
    const grow = (count: number): void => {
      for (let k = 0; k < count; k++) {
        source.appendFact(fact(1), { medium: 'local' })
        size.push(sizes.pick([40, 40, 40, 150, 250, 350, 450, 550, 650]))
      }
    }
    const sizeOf = ({ seq }: FactRecord): number => size[seq]!
    let oversized = new PassedFacts('up', source.asLog, 'oversized')
    const out: Item[] = []
    let noted = 0
    let now = 0
    course(
      `oversized ${seed}`,
      700,
      70,
      () => {
        now += sizes.below(4)
        grow(sizes.below(seed === 3 ? 90 : 5))
        const limit = sizes.pick([100, 200, 300, 400, 500])
        for (let k = 0; k < 6 && noted < source.lastSeq; k++) if (size[++noted]! > limit) oversized.note(noted, limit)
        const head = oversized.head(sizes.pick([200, 600, 600]), sizeOf, now)
        if (head) {
          out.push(itemOf(head.seq))
          oversized.take(out.at(-1)!)
        }
        if (out.length > 0 && sizes.chance(0.6)) sizes.pick(out).done = true
        const ended = oversized.settle()
        if (sizes.chance(0.03)) oversized.rewind()
        const written = sizes.chance(0.1) && oversized.save()
        if (sizes.chance(0.02)) oversized = new PassedFacts('up', source.asLog, 'oversized')
        return [
          head?.seq,
          ended,
          written,
          oversized.heldUntil,
          [0, 100, 200, 300, 500, 600].map(at => oversized.count(at)),
        ]
      },
      () => [...source.counters],
    )
  }

  say('# which frames went out lately')
  {
    const recent = new SentFrames()
    const { below, chance, pick } = dice(5)
    let now = 0
    const sent: RefusedFrame[] = []
    course('recent', 6000, 500, k => {
      now += pick([0, 1, 30, 30, 200])
      const [reason, aid] = ['NEED_FULL' as const, 1 + below(40)]
      const frame = { reason, aid, tid: below(256), ts: below(1e6), crc16: below(65_536) }
      recent.note(frame, now, chance(0.7) ? k + 1 : 0)
      sent.push(frame)
      const old = sent[Math.max(0, sent.length - 1 - below(2600))]!
      const other = chance(0.2) ? { ...old, [pick(['aid', 'tid', 'ts', 'crc16'])]: below(300) } : old
      return [recent.sent(other, now), recent.sent(old, now, now - 3000), recent.takeSeq(other), recent.obey(old, now)]
    })
    const one = { reason: 'NEED_FULL', aid: 7, tid: 200, ts: 1, crc16: 65_535 } as const
    for (const ms of [59_999, 60_000, 60_001]) {
      const fresh = new SentFrames()
      fresh.note(one, 5, 9)
      say(`after ${ms} ms`, [fresh.sent(one, 5 + ms), fresh.obey(one, 5 + ms), fresh.takeSeq(one), fresh.takeSeq(one)])
    }
    for (const ms of [9999, 10_000]) {
      const fresh = new SentFrames()
      fresh.note(one, 0)
      say(`obeyed again after ${ms} ms`, [fresh.obey(one, 0), fresh.obey(one, ms)])
    }
    for (const others of [2047, 2048]) {
      const fresh = new SentFrames()
      fresh.note(one, 0, 4)
      for (let k = 0; k < others; k++) fresh.note({ ...one, aid: 8 }, 0)
      say(`behind ${others} others`, [fresh.sent(one, 0), fresh.takeSeq(one)])
    }
    for (const others of [4094, 4095, 4096]) {
      const fresh = new SentFrames()
      const obeyed = (aid: number): boolean => {
        fresh.note({ ...one, aid }, 0)
        return fresh.obey({ ...one, aid }, 0)
      }
      obeyed(1)
      for (let k = 0; k < others; k++) obeyed(2 + k)
      say(`${others} other AIDs later`, obeyed(1))
    }
  }
  trace.compare()
})
