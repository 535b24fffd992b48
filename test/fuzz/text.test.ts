// Texts: Base62 numbers, compressed facts in both dialects, units, and packets on a serial line.
import assert from 'node:assert/strict'
import { Engine } from '../../src/pipeline/compress'
import { factToDict } from '../../src/pipeline/fact'
import { Fusion } from '../../src/pipeline/fuse'
import { decodeUnit, encodeUnit } from '../../src/pipeline/unittext'
import { resolve, resolveList } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import {
  decodeBase62,
  decodeInteger,
  encodeBase62,
  encodeInteger,
  parseBase62,
  readBase62,
} from '../../src/wire/base62'
import { frameSerial, unframeSerial } from '../../src/wire/serial'
import { UNIT_NAMES, UNIT_TOKENS } from '../../src/wire/symbols'
import { ManualClock } from '../lib/manual'
import { dictToFact } from '../lib/packets'
import { fuzz, vectors } from './harness'
import { repeated } from './mutate'

const texts = (list: readonly string[]): Buffer[] => list.map(text => Buffer.from(text, 'utf8'))
const units = wireUnits()
const clock = new ManualClock()
const given = (op: string, key: string): string[] =>
  vectors().flatMap(c => (c.op === op && typeof c.in[key] === 'string' ? [c.in[key] as string] : []))

// ---- Base62

fuzz({
  name: 'base62',
  allowed: ['BAD_TEXT'],
  seeds: texts([
    ...given('b62_decode', 'text'),
    '0',
    '-0',
    'aZl8N0y58M7',
    '-aZl8N0y58M8',
    '12.5',
    '1e300',
    '-inf',
    'nan',
  ]),
  words: ['-', '+', ' ', '_', 'e', '.', '\u00e9'],
  run(input) {
    const text = input.toString('utf8')
    const encoded = encodeBase62(text)
    assert.equal(encodeInteger(decodeInteger(encoded)), encoded, 'the decoded value equals the encoded one')
    const out = new Float64Array(1)
    const good = readBase62(input, 0, input.length, out, 0)
    const n = good ? out[0] : Number.NaN
    const short = parseBase62(text)
    if (!good && text !== '') assert.throws(() => decodeInteger(text), { code: 'BAD_TEXT' })
    if (!Number.isNaN(short)) assert.equal(short === 0 ? 0 : short, Number(decodeInteger(text)))
    const value = decodeBase62(text)
    if (text !== '') assert.equal(n === 0 ? 0 : n, Number(decodeInteger(text)), 'both readers agree')
    assert.ok(Number.isFinite(value))
    return `${Math.min(text.length, 13)}${Math.sign(value)}${encoded.length}`
  },
  growing: {
    'of digits': n => repeated('Z', n),
    'of digits and a sign at the end': n => Buffer.from(`${'1'.repeat(n - 1)}-`),
    'of underscores': n => repeated('1_', n),
    'of blanks': n => repeated(' ', n),
    'of an exponent': n => Buffer.from(`1e${'9'.repeat(n - 2)}`),
  },
})

// ---- compressed texts

const engines = (['ucum', 'attribute'] as const).map(unitDialect => new Engine(null, { unitDialect, units, clock }))
const fusions = (['ucum', 'attribute'] as const).map(
  unitDialect => new Fusion(null, { unitDialect, units, clock, localId: 42 }),
)
/** the name of what it threw, '' when it did not */
function refused(run: () => unknown, codes: readonly string[]): string {
  try {
    run()
    return ''
  } catch (thrown) {
    const code = String((thrown as { code?: unknown }).code)
    if (codes.includes(code)) return code
    throw thrown
  }
}

fuzz({
  name: 'text',
  inputs: 4000,
  seeds: texts([
    ...given('decompress_text', 'text'),
    ...vectors().flatMap(({ op, in: input }) =>
      op === 'fuse' ? ((input.steps as { input?: string }[]) ?? []).flatMap(step => step.input ?? []) : [],
    ),
    '42;D.1.AY4j8UwA|a>K.m/s:1|b>E.Z:0|c>U.5O,datime:-zz|&u33|#YQ|@aGk',
  ]),
  words: [
    '|a>K.K:1|',
    '>',
    ':',
    '.',
    ';',
    '@',
    '#',
    '&',
    'E.K:0',
    '\x01',
    '{TS}',
    '$&',
    'AAAAAAAA',
    '-_-_-_-_',
    '\u00e9',
  ],
  run(input) {
    const text = input.toString('utf8')
    let outcome = ''
    for (const engine of engines) {
      let fact: ReturnType<Engine['decompress']> | undefined
      outcome += refused(() => (fact = engine.decompress(text)), ['BAD_TEXT'])
      if (!fact) continue
      outcome += Object.keys(fact).length
      // a decoded text can be encoded again, except for units and values that cannot
      outcome += refused(() => engine.compress(fact!), ['BAD_TEXT', 'E_PRECISION', 'BAD_READING'])
      if (fact.id !== undefined) factToDict(dictToFact(fact, 1))
    }
    for (const fusion of fusions)
      for (const strategy of ['DIFF', 'FULL']) {
        let packet: Buffer | undefined
        outcome += refused(() => (packet = fusion.runEngine(text, strategy)), ['BAD_TEXT'])
        if (packet) outcome += packet[0]
      }
    return outcome
  },
  kept: () => ({ templates: [fusions[0]!.sendStore(42).all().length, 255] }),
  growing: {
    'of sensors': n => Buffer.from(`D.1.AY4j8UwA|${'a>K.K:1|'.repeat(n / 8)}`),
    'of one unit': n => Buffer.from(`D.1.AY4j8UwA|a>K.${'1'.repeat(n)}x:1|`),
    'of colons': n => Buffer.from(`D.1.AY4j8UwA|a>${':'.repeat(n)}`),
    'of a token': n => Buffer.from(`D.1.${'-'.repeat(n)}|`),
    'of control characters': n => Buffer.from(`D.1.AY4j8UwA|a>\x01:\x01|${'\x01'.repeat(n)}`),
    'of time marks': n => Buffer.from(`D.1.AY4j8UwA|${'{TS}'.repeat(n / 4)}|a>K.K:1|`),
  },
})

// ---- units

fuzz({
  name: 'units',
  seeds: texts([
    ...UNIT_NAMES.keys(),
    ...UNIT_TOKENS.keys(),
    ...vectors().flatMap(({ op, in: input }) => (op === 'unit_token' ? (input.units as string[]) : [])),
    ...[
      'kg.m2/s3/A',
      '(m/s)2{x}',
      "[in_i'Hg]",
      '10*3/uL',
      'dB[SPL]',
      '°C',
      'µg/m³',
      'degree Celsius',
      '% RH',
      'W/(m2.K)',
    ],
    ...['A{u}/m', '1,k600', '5O,datime', '0.5,600', 'length2', 'electric current/3600time', 'cmdA', 'mmH2O', 'kWh/m2'],
  ]),
  words: [
    '/',
    '.',
    '(',
    ')',
    '{',
    '}',
    '[',
    ']',
    '-',
    '^',
    '**',
    '10*',
    '{u}',
    'da',
    'Ki',
    ',',
    ' per ',
    '\u00b5',
    '\u2126',
    '\u00b2',
    '\u212b',
    '\ufdfa',
  ],
  run(input) {
    const text = input.toString('utf8')
    const law = resolve(text)
    resolveList([text, 'h', text])
    const got = units.fromToken(text)
    assert.ok(got.factor > 0 && Number.isFinite(got.factor) && Number.isFinite(got.offset), 'a factor that is none')
    if (law) {
      assert.ok(law.factor > 0 && Number.isFinite(law.factor) && Number.isFinite(law.offset))
      assert.doesNotMatch(law.canonical, /[|;>:@]/, 'a canonical unit that cuts packets')
      assert.equal(resolve(law.canonical)?.canonical, law.canonical, `${law.canonical} is not its own canonical unit`)
      const back = units.fromToken(units.toToken(law.canonical))
      assert.equal(back.unit, law.canonical, 'the wire text is decoded as another unit')
      assert.ok(Math.abs(back.factor - 1) < 1e-9 || law.canonical === 'B', 'the wire text is decoded scaled')
    }
    assert.ok(units.prefixed(got.unit).length < 20)
    assert.ok(units.prefixed(text).length < 20)
    units.toToken(text)
    const read = refused(() => decodeUnit(text), ['BAD_TEXT'])
    return `${law ? law.canonical.length : read}${got.ambiguous}${refused(() => encodeUnit(text), ['BAD_TEXT'])}`
  },
  growing: {
    'of digits': n => Buffer.from(`${'1'.repeat(n)}x`),
    'of digits with marks': n => Buffer.from(`${'1_1x'.repeat(n / 4)}`),
    'of a coefficient': n => Buffer.from(`1,k${'1'.repeat(n)}x`),
    'of letters': n => repeated('a', n),
    'of blanks': n => repeated(' m', n),
    'of parts': n => repeated('600/', n),
    'of parentheses': n => repeated('(', n),
    'of marks': n => repeated('{u}', n),
    'of degrees': n => repeated('\u00b0 ', n),
    'of commas': n => repeated('1,', n),
    'of attributes': n => repeated('electric current/', n),
  },
})

// ---- packets on a serial line

fuzz({
  name: 'serial',
  seeds: [frameSerial(Buffer.from('3f01', 'hex'), 'uart'), frameSerial(Buffer.from('020303020302', 'hex'), 'rs485')],
  words: [Uint8Array.of(2), Uint8Array.of(3), Uint8Array.of(3, 2)],
  run(input) {
    let outcome = ''
    for (const framing of ['uart', 'rs485'] as const) {
      const packet = unframeSerial(input, framing)
      outcome += packet === null ? '-' : '+'
      if (packet) assert.deepEqual(frameSerial(packet, framing), Buffer.from(input))
      if (input.length > 0) assert.deepEqual(Buffer.from(unframeSerial(frameSerial(input, framing), framing)!), input)
    }
    return outcome
  },
  growing: { 'of delimiters': n => repeated('\x02\x03', n) },
})
