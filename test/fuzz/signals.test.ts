// Input from devices and their vendors: DBC files, frames decoded by them, long J1939 messages, lines of text, NMEA
// 0183.
import assert from 'node:assert/strict'
import { MessageDecoder } from '../../drivers/can/signals/codec'
import { type DbcMessage, MAX_BYTES, MAX_PROBLEMS } from '../../drivers/can/signals/model'
import { plan } from '../../drivers/can/signals/plan'
import { canSourceOptions } from '../../drivers/can/signals/signal-options'
import { dbcText } from '../../drivers/can/signals/tokens'
import { J1939Transport } from '../../drivers/can/signals/transport'
import { checkedEnd } from '../../drivers/lines/checksum'
import { NmeaReader } from '../../drivers/lines/nmea'
import { patternReader } from '../../drivers/lines/pattern'
import { LineSplitter } from '../../drivers/lines/splitter'
import { checkOptions } from '../../src/links/driver-options'
import { parseDbc } from '../lib/dbc'
import { fuzz } from './harness'
import { type Random, repeated } from './mutate'

// ---- DBC files

const DBC = `VERSION "x"
NS_ :
	CM_
	VAL_
BS_:
BU_: A B
BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,-40) [-40|215] "degC" X
 SG_ Speed M : 16|12@1+ (0.0625,0) [0|250] "km/h" X
 SG_ One m1M : 28|3@1+ (1,0) [0|7] "" X
 SG_ Two m2 : 40|24@1- (1E-3,0) [0|0] "V" X
BO_ 2364540158 EEC1: 64 Engine
 SG_ Float : 24|32@1- (0.125,0) [0|8031.875] "rpm" X
CM_ SG_ 291 Speed "of \\"it\\";
all";
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_ "VFrameFormat" BO_ 2364540158 3;
VAL_TABLE_ T 0 "no" 1 "yes";
VAL_ 291 One 0 "Off" 1 "On";
VAL_ 291 Two T;
SIG_VALTYPE_ 2364540158 Float : 1;
SG_MUL_VAL_ 291 Two One 2-2, 4-5;
`
const WORDS =
  'BO_ SG_ CM_ VAL_ BA_ NS_ BU_ SG_MUL_VAL_ SIG_VALTYPE_ VAL_TABLE_ M m0 m1M 0|64@1+ @0- " \\" ; : // 3221225472 1E400'
const options = checkOptions(canSourceOptions, { interface: 'can0', dbc: 'x.dbc' }, 'x')
const frame = Uint8Array.from({ length: 64 }, (_, k) => (k * 37) & 255)

/** Every signal of a message from frames of every length: within the message's channels, numbers or reasons. */
function decodeAll(message: DbcMessage): number {
  const channels = new Map(message.signals.map(({ name }, k) => [name, k]))
  const decoder = new MessageDecoder(message, channels, { j1939: message.format === 'j1939', checkRange: true })
  let values = 0
  for (const length of [0, 1, 7, 8, 64])
    decoder.decode(frame.subarray(0, length), (index, value, error) => {
      assert.ok(index >= 0 && index < channels.size)
      assert.ok(value === null ? error !== undefined : typeof value === 'number')
      values++
    })
  return values
}

fuzz({
  name: 'dbc',
  allowed: ['CONFIG_INVALID'],
  seeds: [Buffer.from(DBC), Buffer.from(DBC, 'latin1'), ...DBC.split('\n').map(line => Buffer.from(line))],
  words: WORDS.split(' '),
  inputs: 10_000,
  run(input) {
    const { messages, problems } = parseDbc(dbcText(input))
    assert.ok(problems.length <= MAX_PROBLEMS)
    let values = 0
    for (const message of messages) {
      assert.ok(message.id <= (message.format === 'standard' ? 0x7ff : 0x1fff_ffff) && message.length <= MAX_BYTES)
      for (const { length, factor, start } of message.signals)
        assert.ok(length >= 1 && length <= 64 && Number.isFinite(factor) && start < MAX_BYTES * 8)
      values += decodeAll(message)
    }
    const { channels } = plan('x', { messages, problems }, options)
    return `${Math.min(messages.length, 4)} ${problems.length} ${channels.length} ${values}`
  },
  growing: {
    'of marks': n => repeated(';|@(', n),
    'in quotes': n => Buffer.from(`CM_ "${'\\"'.repeat(n / 2)}`),
    'of signals': n =>
      Buffer.concat([Buffer.from('BO_ 1 M: 8 X\n'), repeated(' SG_ A m1 : 0|8@1+ (1,0) [0|0] "" X\n', n)]),
    'of messages': n =>
      Buffer.from(
        Array.from(
          { length: n / 64 },
          (_, k) => `BO_ ${k % 2048} M${k}: 8 X\n SG_ A${k} m1M : 0|8@1+ (1,0) [0|0] "" X\n`,
        ).join(''),
      ),
    'of values': n => Buffer.concat([Buffer.from('VAL_ 1 A '), repeated('1 "x" ', n)]),
    'of ranges': n => Buffer.concat([Buffer.from('SG_MUL_VAL_ 1 A B 0-0'), repeated(', 1-1', n)]),
  },
})

// ---- long messages: two bytes of addresses, then a frame, repeated

fuzz({
  name: 'j1939-transport',
  seeds: [
    Buffer.from('00ff00200c0002ffcafe0000ff0101000000000000000000ff0102000000000000ff', 'hex'),
    Buffer.from('010900100a0002020000ef00010901016f6e65206f6e65010901024f4e45ffffffff', 'hex'),
  ],
  run(input) {
    let messages = 0
    const transport = new J1939Transport(
      () => true,
      (_pgn, _source, data) => {
        assert.ok(data.length >= 9 && data.length <= MAX_BYTES)
        messages++
      },
    )
    for (let at = 0, now = 0; at + 3 <= input.length; at += 11, now += 1 + (input[at]! >> 4)) {
      const [source, destination, kind] = [input[at]! & 3, input[at + 1]!, input[at + 2]!]
      const data = input.subarray(at + 3, at + 11)
      if (kind & 1) transport.data(source, destination, data, now * 10)
      else transport.control(source, destination, data, now * 10)
    }
    return `${Math.min(messages, 8)} ${Math.min(transport.incomplete, 8)}`
  },
  growing: { 'of announcements': n => repeated('00ff00200c0002ffcafe00', n) },
})

// ---- lines and NMEA sentences

const SENTENCES = [
  '$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47',
  '$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A',
  '$GPGSA,A,3,04,05,,09,12,,,24,,,,,2.5,1.3,2.1*39',
  '$GPGSV,2,1,08,01,40,083,46,02,17,308,41,12,07,344,39,14,22,228,45*75',
  '$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48',
  '$WIMWV,214.8,R,0.1,K,A*28',
  '$YXXDR,C,19.52,C,AIR,P,1.02481,B,Barometer',
]
const reader = patternReader(['T=(?<t>\\S+)', '(?<a>[-+0-9.,]+);(?<b>\\w+)?'], true, new Map([
  ['t', { place: 0, options: {} }],
  ['a', { place: 1, options: { words: { ON: 1 } } }],
  ['b', { place: 2, options: { base: 16 } }],
])) // biome-ignore format: short

/** Corrects the checksums of an input's sentences. */
function sum(input: Buffer): Buffer {
  const lines = input.toString('latin1').split('\r\n').map(line => {
    const text = line.replace(/\*..$/, '')
    let xor = 0
    for (let k = 1; k < text.length; k++) xor ^= text.charCodeAt(k) & 255
    return `${text}*${xor.toString(16).toUpperCase().padStart(2, '0')}`
  }) // biome-ignore format: short
  return Buffer.from(lines.join('\r\n'), 'latin1')
}

fuzz({
  name: 'lines',
  seeds: [...SENTENCES, 'T=12.5', '-1,5;ff', 'ON;'].map(line => Buffer.from(`${line}\r\n`)),
  words: [',', '*', '\r\n', '$GN', 'GGA', 'XDR', 'N', '4807.038', '-', 'e999'],
  shape: (input: Buffer, random: Random) => (random.chance(0.7) ? sum(input) : input),
  run(input) {
    const nmea = new NmeaReader()
    const seen: string[] = []
    const finite = (value: number | null): void => assert.ok(value === null || Number.isFinite(value))
    const sink = {
      put: (channel: string, value: number | null) => {
        finite(value)
        if (value !== null && channel === 'lat') assert.ok(Math.abs(value) <= 90)
        if (value !== null && channel === 'lon') assert.ok(Math.abs(value) <= 180)
        seen.push(`${channel[0]}${value === null ? '-' : '+'}`)
      },
      transducer: (_name: string, value: number | null) => finite(value),
    }
    const whole: string[] = []
    const splitter = new LineSplitter(Buffer.from('\n'), 256, line => {
      assert.ok(line.length > 0 && line.length <= 256)
      whole.push(Buffer.from(line).toString('latin1'))
      for (const kind of ['none', 'nmea', 'xor'] as const) {
        const end = checkedEnd(line, kind)
        assert.ok(end >= -1 && end <= line.length)
        if (kind === 'nmea' && end >= 0)
          nmea.read(Buffer.from(line.subarray(0, end)).toString('latin1'), sink, seen.length)
      }
      reader(whole.at(-1)!, (index, value) => {
        assert.ok(index <= 2)
        finite(value)
      })
    })
    splitter.push(input)
    const parts: string[] = []
    const other = new LineSplitter(Buffer.from('\n'), 256, line => parts.push(Buffer.from(line).toString('latin1')))
    for (let at = 0; at < input.length; at += 1 + (input[at]! & 15))
      other.push(input.subarray(at, at + 1 + (input[at]! & 15)))
    assert.deepEqual(parts, whole)
    return `${Math.min(whole.length, 3)} ${splitter.tooLong > 0} ${seen.slice(0, 8).join('')}`
  },
  growing: {
    'without an end': n => repeated('a', n),
    'of short lines': n => repeated('T=1\n', n),
    'of fields': n => repeated('$GPXDR,', n),
    'of separators': n => repeated('\r\n', n),
  },
})
