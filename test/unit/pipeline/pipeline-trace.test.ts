// How the parts of this room handle rare or wrong input, compared with pipeline-trace.txt: facts, readings and texts of every
// odd kind, frames changed on the wire, files that fail. Counters, bytes and stored state are part of it.
import { test } from 'node:test'
import { Engine } from '../../../src/pipeline/compress'
import type { Fact } from '../../../src/pipeline/fact'
import { readFirmware } from '../../../src/pipeline/firmware'
import { Fusion } from '../../../src/pipeline/fuse'
import { Receiver } from '../../../src/pipeline/receiver'
import { maxFullSize, UplinkEncoder } from '../../../src/pipeline/sender'
import { PacketSlab } from '../../../src/pipeline/slab'
import { SlotMetaCache } from '../../../src/pipeline/slot-meta-cache'
import { Standardizer } from '../../../src/pipeline/standardize'
import { SendStore } from '../../../src/pipeline/templates'
import { sensorOf, splitText, tokenBytes } from '../../../src/pipeline/text'
import { decodeUnit, encodeUnit } from '../../../src/pipeline/unittext'
import { literalUnits, WirePicker } from '../../../src/pipeline/wireunit'
import { attributeUnits } from '../../../src/units/attribute'
import { ManualClock } from '../../lib/manual'
import { harmed } from '../../lib/packets'
import { dice, outcome, Trace } from '../../lib/trace'
import { MemFiles, systemError } from '../log/memfiles'
import { bothCores } from './both-cores'
import { resolver, units } from './units'

const T0 = 1_710_000_000_000
const KEYS = [Buffer.alloc(32, 5), Buffer.alloc(32, 9)]
const trace = new Trace('unit/pipeline/pipeline-trace.txt')

const NUMBERS = [
  0,
  -0,
  1,
  -1,
  0.5,
  1.5,
  -2.5,
  1e-3,
  4.9e-5,
  5e-5,
  0.00125,
  1e-9,
  3.3e-8,
  20.12345678901,
  273.15,
  1e5,
  123_456.789,
  2 ** 40,
  2 ** 50,
  9.2e14,
  9.3e14,
  2 ** 63,
  1e300,
]
const VALUES = [...NUMBERS, Number.NaN, Number.POSITIVE_INFINITY, null, undefined, '12.5', ' 7 ', 'x', true, [1]]
const UNITS = ['K', 'Cel', 'A', 'mA', '%', 'kPa', 'Pa', 'F', '', 'unknown', '3x', ['m', 's'], [], null, undefined, 5]
const NAMES = ['a', 'temp', 'ü', 'a.b', 'a|b', '', 'x'.repeat(300), 's>1', '\u0001', null, 7]
const STATUS = ['OK', 'ONLINE', 'WARN', 'mine', 'a.b', '', 'ERROR', 'error', null, undefined, 3]

test('engine, standardizer and core handle odd facts and readings as pipeline-trace.txt has it', () => {
  for (const unitDialect of ['ucum', 'attribute'] as const)
    for (const precision of [4, 0, 8, 9, 10]) {
      const clock = new ManualClock(T0 + 5)
      const { below, chance, pick } = dice(precision + 1)
      const engine = new Engine(null, { precision, unitDialect, units, clock })
      const back: string[] = []
      trace.course(`compress ${unitDialect} ${precision}`, 240, 60, () => {
        const fact: Record<string, unknown> = { id: pick(['D', null, 5, 'ü']), s: pick(STATUS) }
        if (chance(0.1)) delete fact.id
        fact[pick(['t', 't_raw'])] = pick([T0, T0 / 1000 + 0.25, 1e11, 1e11 - 1, 0, -1, '17', 'no', null, 2 ** 63])
        for (let n = 1; n <= below(4); n++)
          Object.assign(fact, {
            [`s${n}_id`]: pick(['a', 'b', null]),
            [`s${n}_s`]: pick(STATUS),
            [`s${n}_u`]: pick(['K', 'A', '%', '', 'unknown', null, undefined, '100m/s2', '1000kg', 'x/y']),
            [`s${n}_v`]: pick(VALUES),
          })
        for (const key of ['geohash', 'url', 'msg']) if (chance(0.2)) fact[key] = pick(['https://a/b', 'ü', ''])
        const text = engine.compress(fact, chance(0.8))
        back.push(text)
        return text
      })
      trace.course(
        'decompress',
        240,
        80,
        k => {
          const text = back[k % back.length]!
          const at = below(text.length)
          return engine.decompress(
            chance(0.3)
              ? text
              : text.slice(0, at) + pick(['', '.', '|', ':', '>', '00', '-', '@']) + text.slice(at + below(3)),
            chance(0.3),
          )
        },
        () => engine.unitAmbiguous,
      )
      const settings = { precision, unit_dialect: unitDialect, payload_switches: { SensorId: precision !== 8 } }
      const standardizer = new Standardizer('none', { clock, settings })
      const row = (): unknown =>
        chance(0.05)
          ? pick([null, [], 'row', ['a', 'OK', 1]])
          : [pick(chance(0.8) ? ['a', 'b'] : NAMES), pick(STATUS), pick(VALUES), pick(UNITS)]
      const rows = (): unknown[] => Array.from({ length: below(5) }, row)
      trace.course('standardize', 160, 80, () => {
        const args = {
          [pick(['t', 't_raw', 'geohash', 's1_v', 'other'])]: pick([T0, 17, -1, 2 ** 48, null, 'a|b', 'u']),
        }
        const name = pick(chance(0.8) ? ['D'] : NAMES) as string
        const give = pick(['standardize', 'standardizeToFact'] as const)
        return [
          outcome(() => standardizer[give](name, pick(['ONLINE', 'a|b']), rows(), args)),
          standardizer.lastRejected,
        ]
      })
      const policy = pick([
        { diffBase: 'last', fullEvery: 0, fullIntervalMs: 0 },
        { diffBase: 'sticky', fullEvery: 9, fullIntervalMs: 4000 },
      ] as const)
      const keys = { outbound: (aid: number) => (aid === 3 ? KEYS[0]! : null), inbound: () => null }
      const core = bothCores({
        resolver: unitDialect === 'ucum' ? resolver : attributeUnits,
        ...{ units, clock, precision, unitDialect, policy, keys, maxTid: 6 },
      })
      const out = Buffer.alloc(400)
      trace.course('core', 400, 100, () => {
        clock.advance(below(700))
        const good = Array.from({ length: below(4) }, (_, i) => [
          `s${i}`,
          pick(['OK', 'WARN']),
          pick(NUMBERS.slice(0, 15)),
          pick(['K', 'A', '%', 'Pa']),
        ])
        const list = (chance(0.2) ? rows() : good) as never
        const device = pick(chance(0.95) ? ['D', 'E', 'F'] : NAMES) as string
        const state = pick(chance(0.95) ? ['ONLINE', 'IDLE'] : NAMES) as string
        const at = pick([clock.wall(), clock.wall(), clock.wall(), 5, 2 ** 48, -1])
        const [aid, how] = [pick([3, 4, 2 ** 32 - 1]), pick(['DIFF', 'DIFF', 'FULL'] as const)]
        const made = outcome(() =>
          chance(0.8)
            ? core.transmitFast(list, device, state, at, aid, how)
            : out.subarray(0, core.encodeInto(out, pick([0, 0, 350]), list, device, state, at, aid, how)),
        )
        return [made, core.lastRejected]
      })
    }
})

test('texts of every kind are parsed as pipeline-trace.txt has it', () => {
  const { below, chance, pick, text } = dice(4)
  const letters = 'aK1.|>:;#!@&,/-_ü09e'
  trace.course('firmware', 600, 100, () => {
    const sensor = (): string =>
      `${text('abcdefgh', 13)}>${text('OK.', 4)}.${text('kmPax', 17)}:${text('019aZ-', 17)}${pick(['', '!', '#x', '@a:b'])}`
    const body = chance(0.3)
      ? text(letters, 30)
      : chance(0.3)
        ? `${text('ab', 3)}|${text('K%', 2)}|${text('-0aZ', 3)}${pick(['', '|'])}`
        : `${pick(['D.1.', 'D..', 'ü.U.', '.'])}${pick(['1710', '', 'x'])}|${Array.from({ length: below(7) }, sensor).join('|')}`
    return [body, readFirmware(body, 9, T0)]
  })
  trace.course('text', 400, 100, () => [outcome(() => splitText(text(letters, 12))), sensorOf(text(letters, 8))])
  trace.course('token', 100, 50, () => [tokenBytes(text('aZ_-9 .', 11), chance(0.5)).toString('hex')])
  trace.course('unit', 500, 100, () => {
    const unit = text(pick(['0123456789kmda/.e,GMup', 'km/s2', '10/']), 8)
    return [unit, outcome(() => encodeUnit(unit, below(6))), outcome(() => decodeUnit(unit))]
  })
  trace.course('picker', 60, 20, k => {
    const picker = new WirePicker(units, pick(['A', 'K', 'F']), k % 11)
    return [picker.tokens, picker.canonical, NUMBERS.map(x => picker.pick(x)), NUMBERS.map(x => picker.pick(-x * 1e-7))]
  })
  trace.say('literal', [literalUnits.fromToken('x'), literalUnits.fromPlain('y')])
  let made = 0
  const counted = {
    ...units,
    fromToken: (token: string) => {
      made++
      return units.fromToken(token)
    },
  }
  const metas = new SlotMetaCache('ucum', counted)
  for (const k of [8191, 8192, 8193, 8192]) {
    for (let n = 0; n < k; n++) metas.of(`1.u${n}`, n % 5000 === 1)
    for (const long of [255, 256]) for (let n = 0; n < 2; n++) metas.of('x'.repeat(long), false)
    trace.say('metas', made)
  }
})

test('packet buffers and packets of every size are as pipeline-trace.txt has them', () => {
  const { below, pick } = dice(6)
  const slab = new PacketSlab()
  let chunk: unknown
  let chunks = 0
  trace.course('slab', 3000, 1000, () => {
    const size = pick([16, 40, 300, 5000, 32_768])
    const at = slab.reserve(size)
    if (slab.chunk !== chunk) chunks++
    chunk = slab.chunk
    return [at, slab.take(at, at + below(size + 1)).length, chunks]
  })
  const engine = new Engine(null, { units })
  trace.course('sizes', 60, 20, () => {
    const sensors = Array.from({ length: below(4) }, () => ({
      id: pick(['a', 'üü']),
      status: pick(['OK', 'mine', '']),
      unit: pick(['K', 'A', '']),
      value: 1,
    }))
    return maxFullSize(engine, pick([1, 4e9]), {
      id: 'D',
      state: pick(['ONLINE', 'ü']),
      sensors,
      extras: pick<Fact['extras']>([undefined, { msg: 'ü' }, { url: 'https://x', geohash: 'u' }]),
    })
  })
  const store = new SendStore(4, 3)
  trace.course('store', 200, 50, k => {
    const name = `n${below(7)}`
    const template =
      store.find(name) ??
      store.add(name, 2, { diffBase: pick(['last', 'sticky']), fullEvery: 3, fullIntervalMs: 50 }, k)
    const texts = [
      '00',
      '0',
      '',
      '1b',
      '-1b',
      '01',
      'ab.c',
      'zzzzzzzzzzz',
      '0000000001',
      '9zzzzzzzzz',
      'AzL8n0Y58m7',
      '-AzL8n0Y58m7',
    ]
    const changed = [template.setValueText(0, pick(texts)), template.setValueText(1, pick(texts))]
    const times = Float64Array.of(k * 10, k * 400)
    const full = template.fullDue(
      { diffBase: 'sticky', fullEvery: 5, fullIntervalMs: 900, fullGapMs: pick([0, 800]) },
      times,
    )
    template.sent(full, times)
    if (below(9) === 0) store.keyFrames()
    if (below(40) === 0) store.skipTo(store.nextTid + 1)
    if (below(4) === 0) template.acked = template.ordinal
    const { tid, ordinal, sinceFull, fullAt, lastTs, fullOnlyUntil, acked } = template
    return [
      tid,
      ordinal,
      sinceFull,
      fullAt,
      lastTs,
      fullOnlyUntil === 1 / 0 ? 'always' : fullOnlyUntil,
      acked,
      changed,
      full,
      template.slotTexts(),
      template.base({ diffBase: 'sticky', fullEvery: 0, fullIntervalMs: 0 }, times),
      store.nextTid,
      store.all().map(t => t.tid),
    ]
  })
})

test('frames changed on the wire, and files that fail, are handled as pipeline-trace.txt has it', () => {
  for (const [seed, precision] of [4, 9].entries()) {
    const roll = dice(seed + 50)
    const { below, chance, pick } = roll
    const clock = new ManualClock(T0)
    const files = new MemFiles()
    const keys = {
      outbound: (aid: number) => (aid % 2 ? KEYS[0]! : null),
      inbound: (aid: number) => (aid % 3 ? KEYS[0]! : null),
    }
    const options = { units, clock, precision, files, registryDir: '/r', keys, maxBytes: 30_000, maxTid: 5 }
    const policy = { diffBase: 'sticky', fullEvery: 12, fullIntervalMs: 9000 } as const
    const open = (): { fusion: Fusion; receiver: Receiver } => ({
      fusion: new Fusion(null, { ...options, policy: chance(0.5) ? policy : undefined, localId: 2 }),
      receiver: new Receiver({
        ...{
          units,
          clock,
          precision,
          files,
          registryDir: '/q',
          maxBytes: seed === 0 ? 300_000 : 60_000,
          latest: () => clock.wall() + 60_000,
        },
        ...(seed === 1 && { spillDir: '/s', spillBytes: 300_000 }),
        inboundKey: aid => [[KEYS[0]!], KEYS, KEYS[1]!, null][aid % 4]!,
      }),
    })
    let { fusion, receiver } = open()
    const encoders = Array.from(
      { length: 9 },
      (_, k) =>
        new UplinkEncoder({
          aid: k + 1,
          units,
          clock,
          precision,
          fullEvery: 8,
          frames: k === 8 ? 'full' : 'auto',
          diffBase: k % 2 ? 'last' : 'sticky',
          fullIntervalS: k % 4,
        }),
    )
    const state = (): unknown => [
      [receiver.counters, receiver.weight, receiver.sources, receiver.registry!.errors, receiver.spill?.counters],
      [fusion.weight, fusion.registry!.errors, files.operations, files.syncs, [...files.files.keys()].length],
    ]
    trace.course(
      `frames ${precision}`,
      1000,
      100,
      k => {
        clock.advance(below(900))
        if (k % 200 === 150)
          files.gate = operation => {
            if (operation === pick(['open', 'read', 'remove', 'sync'])) throw systemError('EIO')
          }
        if (k % 200 === 190) files.gate = () => undefined
        if (k % 400 === 399) {
          if (chance(0.7)) receiver.save()
          if (chance(0.7)) fusion.stop()
          const name = pick([...files.files.keys()])
          if (chance(0.5)) files.truncate(name, Math.floor(files.size(name) / 2))
          ;({ fusion, receiver } = open())
        }
        const encoder = pick(encoders)
        if (chance(0.03)) encoder.opened(chance(0.5), pick(['last', 'sticky', undefined]))
        if (chance(0.03)) encoder.keyFramesApart(pick([0, 3000]))
        if (chance(0.03)) encoder.keyFrameNext(pick([undefined, 1, 2]))
        if (chance(0.01)) encoder.skipTids(encoder.nextTid + 60)
        const fact: Fact = {
          id: pick(['D', 'E', 'F']),
          state: pick(['ONLINE', 'ONLINE', 'IDLE']),
          aid: encoder.aid,
          tRaw: pick([
            clock.wall(),
            clock.wall(),
            clock.wall(),
            0,
            clock.wall() - below(9000),
            clock.wall() + 100_000,
            chance(0.1) ? 2 ** 48 : T0,
          ]),
          sensors: Array.from({ length: below(5) }, (_, i) => ({
            id: `s${i}`,
            status: pick(['OK', 'OK', 'mine', chance(0.05) ? 'a.b' : 'OK']),
            unit: pick(['K', 'A', '%', chance(0.05) ? 'x'.repeat(260) : 'K']),
            value: pick([...NUMBERS.slice(0, 16), chance(0.1) ? 1e300 : 3, null]),
          })),
        }
        if (chance(0.1)) fact.extras = pick<Fact['extras']>([{ msg: 'ü' }, { url: 'https://x' }, { geohash: 'u1' }])
        const key = pick([null, null, KEYS[encoder.aid % 2]!])
        const frame = chance(0.1)
          ? encoder.encodeFull(fact, pick([undefined, 200, 254, 255, 199, 256]), key)
          : encoder.encode(fact, { full: chance(0.1), late: chance(0.05) }, key)
        if (chance(0.5)) encoder.acknowledged(frame.tid, frame.ordinal - below(2))
        const bytes = chance(0.25) ? harmed(frame.bytes, roll) : frame.bytes
        const epoch = chance(0.5) ? undefined : 5
        const heard = [receiver.receive(bytes, epoch), fusion.decompress(bytes), outcome(() => fusion.relay(bytes))]
        const text = (): string =>
          `2;${fusion.engine.compress({ id: fact.id, s: 'OK', t_raw: clock.wall(), s1_id: 'a', s1_u: pick(['K', 'A']), s1_v: pick(NUMBERS.slice(0, 12)) })}`
        const made = chance(0.3)
          ? outcome(() => fusion.runEngine(chance(0.8) ? text() : Buffer.from(`x${text()}`), pick(['DIFF', 'FULL'])))
          : ''
        if (chance(0.02)) receiver.rebuild(encoder.aid)
        if (chance(0.01)) receiver.forget(encoder.aid)
        if (chance(0.02)) receiver.remember(fact)
        if (chance(0.03)) receiver.replay(bytes, encoder.aid, chance(0.2))
        const { ordinal, maxSize } = frame
        return [
          heard,
          made,
          ordinal,
          maxSize,
          frame.bytes.length,
          encoder.nextTid,
          receiver.knows(encoder.aid),
          receiver.template(encoder.aid, frame.tid),
        ]
      },
      state,
    )
  }
})

test('the complete run equals pipeline-trace.txt', () => {
  trace.compare()
})
