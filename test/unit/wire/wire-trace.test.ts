// What every function of the wire room returns, at its limits and for thousands of drawn inputs, compared with
// wire-trace.txt. The entries for float(), repr(), %g and round() are those of Python itself, except for -0 and for
// digits outside of ASCII.
import { test } from 'node:test'
import * as base62 from '../../../src/wire/base62'
import { deriveSessionKey, xorPayload, xorRange } from '../../../src/wire/cipher'
import * as commands from '../../../src/wire/commands'
import { crc8, crc16, crc16Byte, crc32c, crcBits } from '../../../src/wire/crc'
import { ByteReader, ByteWriter } from '../../../src/wire/cursor'
import { WireError } from '../../../src/wire/error'
import * as frame from '../../../src/wire/frame'
import { isGoodName, isGoodStatus } from '../../../src/wire/names'
import { endDigits, pyFloat, pyGeneral, pyText } from '../../../src/wire/number'
import { frameSerial, lrc, unframeSerial } from '../../../src/wire/serial'
import * as symbols from '../../../src/wire/symbols'
import { dice, outcome, Trace } from '../../lib/trace'

const trace = new Trace('unit/wire/wire-trace.txt')
const { say } = trace
const courseOf = trace.course.bind(trace)
const { below, chance, pick, text } = dice(41)

/** As text, with what JSON does not have: -0, NaN, infinities and integers of 64 bits. */
const show = (value: unknown): string =>
  Object.is(value, -0)
    ? '-0'
    : typeof value === 'number' || value === undefined
      ? String(value)
      : typeof value === 'bigint'
        ? `${value}n`
        : JSON.stringify(value)
/** One line with what `run` returns or throws for each input. */
const each = <T>(name: string, inputs: readonly T[], run: (input: T) => unknown): void => {
  const given = (input: T): string => {
    let shown = ''
    const error = outcome(() => void (shown = show(run(input))))
    return shown || error
  }
  trace.lines.push(`${name}: ${inputs.map(input => `${show(input)} → ${given(input)}`).join(', ')}`)
}
const drawn = (size: number): Buffer => Buffer.from(Array.from({ length: size }, () => below(256)))
const real = (): number => (chance(0.5) ? 1 : -1) * (1 + below(2 ** 30) / 2 ** 30) * 2 ** (below(140) - 70)

const EDGES = [
  61,
  62,
  3843,
  3844,
  238327,
  238328,
  14776335,
  14776336,
  916132831,
  916132832,
  62 ** 7,
  62 ** 8 - 1,
  62 ** 8,
]
const WHOLE = [0, 1, ...EDGES, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 53 + 2, 2 ** 62, 2 ** 63, 2 ** 64, 1e30]
const REAL = [
  0.5,
  1.5,
  2.5,
  0.125,
  0.375,
  2.675,
  1.00005,
  19531250e-10,
  1e-9,
  4.5e-9,
  1e15 + 0.5,
  2 ** 53,
  1e22,
  5e-324,
]
const PYTHON = [
  ...REAL,
  0,
  -0,
  1e-4,
  9.9999e-5,
  1e-5,
  123456,
  1234565,
  999999.5,
  1e16,
  9.9e15,
  1.5e16,
  1e100,
  0.1,
  100,
  1e5,
  1e6,
]
const TEXTS = [
  '',
  '0',
  '-',
  '-0',
  '--1',
  '1-',
  'Z',
  'zzz',
  '1.5',
  ' 1',
  '1!',
  'é1',
  'Ā',
  '{',
  '/',
  ':',
  '@',
  '[',
  '`',
  '00',
]
const LONG = [
  '00000000',
  '000000001',
  '-12345678',
  '-123456789',
  'aZ3kQ9Lm0',
  '12345678!',
  '123456789!',
  '-!',
  'ZZZZZZZZZZZZ',
]

test('Base62, the cipher and the checksums are as wire-trace.txt has them', () => {
  say('# Base62')
  const signed = (list: readonly number[]): number[] => list.flatMap(n => [n, -n])
  each('encodeInteger', signed(WHOLE), base62.encodeInteger)
  each(
    'encodeInteger',
    [0n, 5n, -5n, 2n ** 53n, -(2n ** 53n), 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n + 7n],
    base62.encodeInteger,
  )
  each('no value', [base62.NO_VALUE], base62.encodeInteger)
  each('encodeBase62', [...signed(REAL), 'x', '2.5', true, null, Number.NaN, 1e300, -1e300], x =>
    base62.encodeBase62(x),
  )
  each('encodeBase62 whole', signed(REAL), x => base62.encodeBase62(x, false))
  for (const precision of [0, 1, 7, 8, 9, 12, 22]) {
    each(`encodeBase62 ${precision}`, [0.5, 1.25, -Math.PI, 1e6], x => base62.encodeBase62(x, true, precision))
    each(`unscale ${precision}`, [0, -0, 1, -5, 123456789, 2 ** 53, 1e300], n => base62.unscale(n, precision))
  }
  for (const digits of [0, 1, 2, 8, 20, 99, 100])
    each(`roundDecimals ${digits}`, signed(REAL).concat(Number.NaN, Number.POSITIVE_INFINITY), x =>
      base62.roundDecimals(x, digits),
    )
  each('roundHalfEven', signed([...REAL, 0.49999999999999994, 3.5, 7.49]), base62.roundHalfEven)
  const all = [...TEXTS, ...LONG, `1${'0'.repeat(63)}`, `1${'0'.repeat(64)}`, `-${'Z'.repeat(65)}`, `${'!'.repeat(50)}`]
  each('decodeInteger', all, base62.decodeInteger)
  each('decodeBase62', all, t => base62.decodeBase62(t))
  each('decodeBase62 whole', all, t => base62.decodeBase62(t, false))
  each('parseBase62', all, base62.parseBase62)
  const parsed = new Float64Array(1)
  each('readBase62', all, t =>
    base62.readBase62(Buffer.from(`7${t}7`, 'latin1'), 1, 1 + t.length, parsed, 0) ? parsed[0] : Number.NaN,
  )
  const out = new Uint8Array(20)
  each('writeBase62Of', signed(WHOLE.filter(n => n <= 2 ** 63)), n => {
    const end = base62.writeBase62Of(out.fill(46), 3, Float64Array.of(9, n), 1)
    return [end, Buffer.from(out).toString()]
  })
  each('codes', [...Array(256).keys()], code => base62.parseBase62(String.fromCharCode(code)))
  courseOf('rounded', 8000, 2000, () => [
    base62.roundDecimals(real(), below(12)),
    base62.encodeBase62(real(), true, below(9)),
  ])

  say('# the cipher')
  const numbers = [0, 1, -1, 1.9, null, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 40, 5n, -5n, 2n ** 63n]
  for (const aid of numbers) each(`key of ${show(aid)}`, numbers, ts => deriveSessionKey(aid, ts).toString('hex', 0, 4))
  for (const size of [0, 1, 5, 31, 32, 33])
    each(`xor with ${size}`, [0, 1, 5, 31, 32, 33, 255], offset => {
      const bytes = Buffer.from([...Array(40).keys()])
      const key = Buffer.from(Array.from({ length: size }, (_, k) => 100 + k))
      xorRange(bytes, 3, 37, key, offset)
      return [bytes.toString('hex'), xorPayload(bytes.subarray(0, 6), key, offset).toString('hex')]
    })

  say('# checksums')
  each('crc8', [0, 1, 2, 9, 40], size => crc8(Buffer.alloc(size, 'qwe7')))
  courseOf('of ranges', 3000, 1000, () => {
    const bytes = drawn(below(60))
    const [a, b] = [below(20), below(50)]
    const ends = [Math.min(a, bytes.length), Math.min(a + b, bytes.length)] as const
    const wide = chance(0.5) ? 8 : 16
    return [
      [crc8(bytes), crc16(bytes), crc32c(bytes), lrc(bytes)],
      [crc8(bytes, ...ends), crc16(bytes, ...ends), crc32c(bytes, ...ends), lrc(bytes, ...ends)],
      [crc8(bytes, ...ends, below(256)), crc16(bytes, ...ends, below(65536)), crc32c(bytes, ...ends, below(2 ** 32))],
      [crc16Byte(below(65536), below(256)), crcBits(wide, below(65536), below(1 << 20), bytes)],
    ]
  })
})

test('bytes, frames and commands are as wire-trace.txt has them', () => {
  say('# the cursor')
  courseOf('written and read', 400, 100, () => {
    const size = below(40)
    const bytes = Buffer.alloc(size + 4, 0xee)
    const start = below(3)
    const writer = new ByteWriter(bytes, start, size)
    const seen: unknown[] = []
    for (let k = 0; k < 8; k++) {
      const value = pick([0, 1, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, 2 ** 48 - 1, 2 ** 53 - 1, below(2 ** 30)])
      const how = pick(['u8', 'u16', 'u32', 'u64', 'put'] as const)
      seen.push(outcome(() => (how === 'put' ? writer.put(drawn(below(9))) : writer[how](value)).at))
    }
    seen.push(
      bytes.toString('hex'),
      Buffer.from(writer.done()).toString('hex'),
      Buffer.from(writer.done(start)).toString('hex'),
    )
    const reader = new ByteReader(bytes, start, size)
    for (let k = 0; k < 9; k++) {
      const how = pick(['u8', 'u16', 'u32', 'u48', 'u64', 'view'] as const)
      seen.push([outcome(() => (how === 'view' ? reader.view(below(9) - 1) : reader[how]())), reader.at, reader.left])
    }
    return seen
  })
  each('over the end', [0, 1, 2, 3, 4, 8], size => {
    const bytes = new Uint8Array(size)
    const errors = [() => new ByteReader(bytes, 1).u16(), () => new ByteWriter(bytes, 1).u32(7).at].map(outcome)
    return [...errors, new ByteWriter(bytes).at, new ByteReader(bytes).left]
  })
  const error = new WireError('BAD_TEXT', 'so it is')
  say('error', [error.name, error.code, error.message, error instanceof RangeError])

  say('# frames')
  const out = Buffer.alloc(60)
  each('header', [0, 1, 2 ** 32 - 1, 2 ** 32, 2 ** 47, 2 ** 48 - 1, 2 ** 48, 1_710_000_000_123], ts => {
    const body = frame.writeHeader(out.fill(0xee), 2, 0xaa, 0xfedcba98, 199, ts)
    const time = Buffer.alloc(10, 46)
    return [body, out.toString('hex', 0, 18), frame.writeTimeToken(time, 1, frame.tsHigh(ts), ts | 0), time.toString()]
  })
  for (const routes of [0, 1, 2, 3, 255])
    each(`${routes} routes`, [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 20], size => {
      const packet = Buffer.from(
        Array.from({ length: size < 5 ? size : size + 4 * routes }, (_, k) => (k * 37 + 200) & 255),
      )
      if (size > 1) packet[1] = routes
      if (size > 11) packet.writeUInt16BE(crc16(packet, 0, packet.length - 2), packet.length - 2)
      const header = frame.readHeader(packet)
      return typeof header === 'string' ? header : { ...header, routes: header.routes?.length }
    })
  each('routes', [0, 1, 2, 3], count => {
    const header = frame.readHeader(
      Buffer.concat([
        Buffer.of(0x3f, count),
        Buffer.from('fedcba9876543210deadbeef', 'hex').subarray(0, 4 * count),
        Buffer.alloc(12, 0x91),
      ]),
    )
    return header
  })
  courseOf('sealed and under another key', 500, 100, () => {
    const at = below(4)
    out.fill(0xee)
    const body = frame.writeHeader(
      out,
      at,
      pick([0x3f, 0xaa, 0x7f, 0x40, 0x09]),
      below(2 ** 32),
      below(256),
      below(2 ** 40),
    )
    const keys = [null, drawn(32), drawn(32)]
    const key = pick(keys)
    const end = frame.sealFrame(out, at, body, body + below(20), key)
    const packet = Buffer.from(out.subarray(at, end))
    const other = frame.rekeyFrame(packet, pick(keys), pick(keys))
    if (chance(0.2)) packet[below(packet.length)]! ^= 1 << below(8)
    const bad = frame.rekeyFrame(packet, key, pick(keys))
    return [
      out.toString('hex'),
      other && Buffer.from(other).toString('hex'),
      bad && Buffer.from(bad).toString('hex'),
      frame.readHeader(packet),
    ]
  })
  say('sizes', [frame.HEADER_SIZE, frame.FRAME_OVERHEAD])

  say('# commands')
  const { ANSWERS, COMMAND, baseCommand, commandName, isData, isSecure, secureCommand } = commands
  for (let cmd = 0; cmd < 256; cmd++) {
    const said = [commandName(cmd), isData(cmd), isSecure(cmd), baseCommand(cmd), secureCommand(cmd), ANSWERS.has(cmd)]
    if (said[0] || said[1] || said[2] || said[3] !== cmd || said[4] !== cmd || said[5]) say(`${cmd}`, said)
  }
  say('all', COMMAND)

  say('# serial frames')
  for (const framing of ['uart', 'rs485'] as const) {
    each(framing, ['', '02', '03', 'fffe03', '0203020303'], packet => {
      const framed = frameSerial(Buffer.from(packet, 'hex'), framing)
      return [framed.toString('hex'), outcome(() => unframeSerial(framed, framing))]
    })
    const broken = [
      '',
      '02',
      '0203',
      '020303',
      '02020203',
      '02050503',
      '02050504',
      '01050503',
      '02050503ff',
      '0205060b03',
      '0205060c03',
    ]
    each(`${framing} back`, broken, bytes => outcome(() => unframeSerial(Buffer.from(bytes, 'hex'), framing)))
  }
})

test('numbers, names and symbols are as wire-trace.txt has them', () => {
  say('# numbers of Python')
  const numeric = [
    '1_000',
    '_1',
    '1_',
    '1__0',
    ' 12.5 ',
    '1e3',
    '1e+3',
    '1E-3',
    '.5',
    '5.',
    '.',
    '+.5e1_0',
    '0x10',
    '',
    ' ',
    '1 2',
    '1e',
    '-7',
  ]
  const special = ['inf', '-inf', '+Infinity', ' NaN ', '-nan', 'infin', 'abc', '１']
  each('pyFloat', [...numeric, ...special], pyFloat)
  each('pyFloat', [true, false, 7, -0, null, undefined, {}, []] as unknown[], pyFloat)
  say('pyFloat of 64 bits', show(pyFloat(2n ** 60n)))
  const both = PYTHON.flatMap(x => [x, -x])
  each('pyText', both, pyText)
  each(
    'pyGeneral',
    [...both, 1.5, 0.0001234565, 0.00012345, 123456.5, 123455.5, 2.5e-7, 1.0000005, 1.000015e10],
    pyGeneral,
  )
  each('not finite', [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY], x => outcome(() => pyText(x)))
  courseOf('printed', 8000, 2000, () => {
    const x = chance(0.3) ? below(1e7) / 2 ** below(9) : real()
    return [pyText(x), pyGeneral(x)]
  })
  each('endDigits', ['', 'a', 'a1', 'a12', '12', '1a', 'a/', 'a:', 'a0', 'a9', '9:9'], endDigits)

  say('# names')
  const codes = [...Array(0x180).keys(), 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xffff]
  const bad = (good: (text: unknown) => boolean, make: (c: string) => string): string =>
    codes
      .filter(code => !good(make(String.fromCharCode(code))))
      .map(code => code.toString(16))
      .join(' ')
  say(
    'not in a name',
    bad(isGoodName, c => `a${c}a`),
  )
  say(
    'not first in a name',
    bad(isGoodName, c => `${c}a`),
  )
  say(
    'not in a status',
    bad(isGoodStatus, c => `a${c}`),
  )
  each('name', ['', 'a', '😀', 5, null] as unknown[], isGoodName)
  each('status', ['', '&', '#', 5, null] as unknown[], isGoodStatus)
  courseOf('drawn', 500, 500, () => {
    const t = text('abc&#.|@', 5)
    return [isGoodName(t), isGoodStatus(t)]
  })

  say('# symbols')
  say('units', Object.fromEntries(symbols.UNIT_TOKENS))
  say('tokens', Object.fromEntries(symbols.UNIT_NAMES))
  say('states', Object.fromEntries(symbols.STATE_TOKENS))
  each('stateToken', ['ONLINE', 'offline', 'Ok', 'error', 'unknown', 'else'], symbols.stateToken)
  each('stateName', ['1', '0', 'K', 'Z', 'E', 'else', 'k'], symbols.stateName)

  trace.compare()
})
