// Lines from bytes, checksums, numbers from text, NMEA sentences: with the public examples of the standard.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkedEnd } from '../../../../drivers/lines/checksum'
import { NmeaReader, transducerUnit } from '../../../../drivers/lines/nmea'
import { groupsOf, numberOf, tooSlow } from '../../../../drivers/lines/pattern'
import { LineSplitter } from '../../../../drivers/lines/splitter'
import { prng } from '../../../lib/random'

function split(
  bytes: string,
  { separator = '\n', max = 8, chunk = (): number => 1 } = {},
): { lines: string[]; tooLong: number } {
  const lines: string[] = []
  const splitter = new LineSplitter(Buffer.from(separator), max, line =>
    lines.push(Buffer.from(line).toString('latin1')),
  )
  const all = Buffer.from(bytes, 'latin1')
  for (let at = 0; at < all.length; ) {
    const size = chunk()
    splitter.push(all.subarray(at, at + size))
    at += size
  }
  return { lines, tooLong: splitter.tooLong }
}

test('lines end at their separator; empty ones are skipped; a carriage return before a line feed belongs to the separator', () => {
  assert.deepEqual(split('a\r\n\r\n\nbc\n\rd\nrest').lines, ['a', 'bc', '\rd'])
  assert.deepEqual(split('a\rb\r\r', { separator: '\r' }).lines, ['a', 'b'])
  assert.deepEqual(split('a<>b><>c<<>', { separator: '<>' }).lines, ['a', 'b>', 'c<'])
})

test('a line of the maximum length is complete, a longer one is dropped, the next is received', () => {
  for (const separator of ['\n', '<>'])
    assert.deepEqual(split(['12345678', '123456789', '1'.repeat(50), 'ok', ''].join(separator), { separator }), {
      lines: ['12345678', 'ok'],
      tooLong: 2,
    })
  assert.deepEqual(split('12345678\r\n123456789\r\nok\n').lines, ['12345678', 'ok'])
})

test('however the bytes are split into chunks, the lines are the same', () => {
  const random = prng(11)
  for (let k = 0; k < 500; k++) {
    const bytes = Array.from({ length: 200 }, () => 'abc<>\n\r'[Math.floor(random() * 7)]).join('')
    for (const separator of ['\n', '<>', '\r\n']) {
      const whole = split(bytes, { separator, chunk: () => 200 })
      assert.deepEqual(split(bytes, { separator, chunk: () => 1 + Math.floor(random() * 9) }), whole)
      const expected = bytes.split(separator).slice(0, -1)
      const plain = separator === '\n' ? expected.map(line => line.replace(/\r$/, '')) : expected
      assert.deepEqual(whole.lines, plain.filter(line => line !== '' && line.length <= 8)) // biome-ignore format: short
    }
  }
})

test('checksums are found in the common notations', () => {
  const end = (text: string, kind: 'none' | 'nmea' | 'xor', required?: boolean): number =>
    checkedEnd(Buffer.from(text, 'latin1'), kind, required)
  const gga = '$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47'
  assert.equal(end(gga, 'nmea'), gga.length - 3)
  assert.equal(end(gga.replace('4807', '4808'), 'nmea'), -1)
  assert.equal(end('$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48', 'nmea'), 38)
  assert.equal(end('$PASHR,1*', 'nmea'), -1)
  assert.equal(end('$PASHR,1', 'nmea'), -1)
  assert.equal(end('$PASHR,1', 'nmea', false), 8)
  assert.equal(end('AB*03', 'xor'), 2)
  assert.equal(end('AB03', 'xor'), 2)
  assert.equal(end('AB04', 'xor'), -1)
  assert.equal(end('AB0g', 'xor'), -1)
  assert.equal(end('0', 'xor'), -1)
  assert.equal(end('anything', 'none'), 8)
})

test('numbers in the common notations: signs, commas, exponents, hex, words; anything else is no number', () => {
  const cases: [string, number, Parameters<typeof numberOf>[1]?][] = [
    [' +23.5 ', 23.5],
    ['-0,25', -0.25],
    ['.5', 0.5],
    ['7.', 7],
    ['1e-3', 0.001],
    ['1F', 31, { base: 16 }],
    ['0x00ff', 255, { base: 16 }],
    ['ON', 1, { words: { ON: 1 } }],
    ['', Number.NaN],
    ['1.2.3', Number.NaN],
    ['1,234.5', Number.NaN],
    ['0x10', Number.NaN],
    ['Infinity', Number.NaN],
    ['constructor', Number.NaN, { words: { ON: 1 } }],
  ]
  for (const [text, value, options] of cases) assert.ok(Object.is(numberOf(text, options), value), text)
})

test('groups have names, in their order; expressions that could block the gateway are recognized', () => {
  assert.deepEqual(groupsOf('T=(?<temp>[-0-9.]+)(?:,H=(?<hum>\\d+))?'), ['temp', 'hum'])
  assert.deepEqual(groupsOf('^(\\d+)$'), [])
  assert.throws(() => groupsOf('(?<a>'), SyntaxError)
  for (const fine of ['T=(?<t>[-+0-9.]+)', '^\\s*(?<a>\\S+)\\s+(?<b>\\S+)\\s*$', '(?<a>\\d+),.*,(?<b>\\d+)'])
    assert.equal(tooSlow(fine, 1024), false, fine)
  for (const slow of ['^(?<a>(a+)+)$', '(?<a>(?:\\d+\\.?)+)x', '^(?<v>(?:[0-9]+,?)*);$', '^(?<a>(?:k|kk)+)!$'])
    assert.equal(tooSlow(slow, 256), true, slow)
})

function read(...sentences: string[]): Record<string, number | null | string> {
  const reader = new NmeaReader()
  const got: Record<string, number | null | string> = {}
  for (const sentence of sentences)
    reader.read(
      sentence.replace(/\*..$/, ''),
      {
        put: (channel, value) => {
          got[channel] = value
        },
        transducer: (name, value, unit) => {
          got[name] = `${value} ${unit}`
        },
      },
      0,
    )
  return got
}
const near = (value: unknown, expected: number): void =>
  assert.ok(Math.abs((value as number) - expected) < 1e-9, `${value}`)

test('position, altitude and speed from GGA, RMC, GLL, VTG, GSA', () => {
  const gga = read('$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47')
  near(gga.lat, 48 + 7.038 / 60)
  near(gga.lon, 11 + 31 / 60)
  assert.deepEqual([gga.fix, gga.satellites, gga.hdop, gga.altitude], [1, 8, 0.9, 545.4])
  const rmc = read('$GNRMC,123519,A,4807.038,S,01131.000,W,022.4,084.4,230394,003.1,W*6A')
  near(rmc.lat, -48.1173)
  near(rmc.lon, -(11 + 31 / 60))
  near(rmc.speed, (22.4 * 1852) / 3600)
  assert.equal(rmc.course, 84.4)
  const gll = read('$GPGLL,4916.45,N,12311.12,W,225444,A,*1D')
  near(gll.lat, 49 + 16.45 / 60)
  near(gll.lon, -(123 + 11.12 / 60))
  const vtg = read('$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48')
  near(vtg.speed, 5.5 * 0.514444444444444)
  assert.equal(vtg.course, 54.7)
  assert.deepEqual(read('$GPGSA,A,3,04,05,,09,12,,,24,,,,,2.5,1.3,2.1*39'), {
    fix_mode: 3,
    pdop: 2.5,
    hdop: 1.3,
    vdop: 2.1,
  })
})

test('without a fix there is no position, whatever the fields contain', () => {
  assert.deepEqual(read('$GPGGA,123519,4807.038,N,01131.000,E,0,00,99.9,0.0,M,,M,,'), {
    fix: 0,
    lat: null,
    lon: null,
    satellites: 0,
    hdop: null,
    altitude: null,
  })
  const invalid = { lat: null, lon: null, speed: null, course: null }
  assert.deepEqual(read('$GPRMC,123519,V,4807.038,N,01131.000,E,022.4,084.4,230394,,'), invalid)
  assert.deepEqual(read('$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,,,N'), invalid)
  assert.deepEqual(read('$GPVTG,,T,,M,,N,,K,N'), { course: null, speed: null })
})

test('a value counts only if the sentence marks it valid, and in its known unit', () => {
  const where = '4916.45,N,12311.12,W'
  for (const [text, expected] of [
    ['$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K,A', { course: 54.7, speed: (5.5 * 1852) / 3600 }],
    ['$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K,N', { course: null, speed: null }],
    ['$GPVTG,054.7,M,034.4,M,005.5,K,010.2,K,A', { course: null, speed: null }],
    ['$GPVTG,054.7,T,034.4,M,005.5,K,010.2,K,A', { course: 54.7, speed: null }],
    [`$GPGLL,${where},225444,V,A`, { lat: null, lon: null }],
    [`$GPGLL,${where},225444,A,N`, { lat: null, lon: null }],
    ['$HEHDT,274.07,M', { heading: null }],
    ['$HCHDG,355.0,5.0,E,,', { heading_magnetic: 0 }],
    ['$HCHDG,5.0,5.0,W,,', { heading_magnetic: 0 }],
    ['$HEHDM,274.07,M', { heading_magnetic: 274.07 }],
    ['$HEHDM,274.07,T', { heading_magnetic: null }],
    ['$SDDBT,7.8,f,2.4,f,1.3,F', { depth: null }],
    ['$YXMTW,17.75,F', { water_temperature: null }],
    ['$WIMWV,214.8,T,36.0,Z,A', { wind_angle_true: 214.8, wind_speed_true: null }],
    ['$WIMWV,214.8,T,36.0,K,V', { wind_angle_true: null, wind_speed_true: null }],
    ['$WIMWV,214.8,X,36.0,K,A', {}],
  ] as const)
    assert.deepEqual(read(text), expected, text)
  for (const [fix, unit, altitude] of [
    [1, 'M', 545.4],
    [1, 'f', null],
    [0, 'M', null],
    [10, 'M', null],
  ] as const) {
    const gga = read(`$GPGGA,123519,${where},${fix},08,0.9,545.4,${unit},46.9,M,,`)
    assert.deepEqual([gga.altitude, gga.lat === null], [altitude, fix !== 1], `fix ${fix}, ${unit}`)
  }
})

test('impossible positions are dropped', () => {
  for (const where of [
    '4860.000,N,01131.000,E',
    '9100.000,N,01131.000,E',
    '4807.038,N,18100.000,E',
    '4807.038,X,01131.000,E',
    '48.07,N,01131.0,E',
    ',,,',
    '4807.038,,01131.000,E',
  ]) {
    const { lat, lon } = read(`$GPGLL,${where},225444,A`)
    assert.deepEqual([lat, lon], [null, null], where)
  }
})

test('satellites in view are summed over the constellations', () => {
  assert.deepEqual(
    read('$GPGSV,2,1,08,01,40,083,46*00', '$GPGSV,2,2,08,01,40,083,46*00', '$GLGSV,1,1,03,65,40,083,46*00'),
    {
      satellites_in_view: 11,
    },
  )
})

test('a constellation silent for 15 s no longer counts; more constellations than exist do not count', () => {
  const reader = new NmeaReader()
  const view = (talker: string, count: string, now: number): number | null | undefined => {
    let seen: number | null | undefined
    reader.read(
      `$${talker}GSV,1,1,${count}`,
      { put: (_: string, value: number | null) => (seen = value) } as never,
      now,
    )
    return seen
  }
  assert.equal(view('GP', '08', 0), 8)
  assert.equal(view('GL', '03', 15_000), 11)
  assert.equal(view('GL', '04', 15_001), 4)
  assert.equal(view('GL', '', 30_001), 4)
  assert.equal(view('GL', '', 30_002), null)
  for (let k = 0; k < 12; k++)
    assert.equal(view(`A${k.toString(16).toUpperCase()}`.replace(/(.)(.)/, 'G$2'), '01', 40_000), k + 1)
  assert.equal(view('ZZ', '01', 40_000), 12)
})

test('ship sensors: wind, depth, water, heading, transducers', () => {
  const wind = read('$WIMWV,214.8,R,36.0,K,A*28', '$WIMWV,045.0,T,10.0,N,A')
  assert.deepEqual([wind.wind_angle, wind.wind_speed, wind.wind_angle_true], [214.8, 10, 45])
  near(wind.wind_speed_true, 5.14444444444444)
  assert.deepEqual(read('$WIMWV,214.8,R,0.1,K,V'), { wind_angle: null, wind_speed: null })
  assert.deepEqual(
    read('$SDDBT,7.8,f,2.4,M,1.3,F', '$YXMTW,17.75,C*5D', '$HEHDT,274.07,T*03', '$HCHDG,101.1,,,7.1,W*3C'),
    { depth: 2.4, water_temperature: 17.75, heading: 274.07, heading_magnetic: 101.1 },
  )
  // the compass sends its deviation: east is added, west subtracted, across north too
  assert.deepEqual(read('$HCHDG,98.3,1.5,E,12.6,W'), { heading_magnetic: 99.8 })
  assert.deepEqual(read('$HCHDG,1.5,2,W,,'), { heading_magnetic: 359.5 })
  assert.deepEqual(read('$HCHDG,359,2,E,,'), { heading_magnetic: 1 })
  assert.deepEqual(read('$HCHDG,,2,E,,'), { heading_magnetic: null })
  assert.deepEqual(read('$YXXDR,C,19.52,C,AIR,P,1.02481,B,Barometer,A,-12,D,PITCH,Z,1,Q,X,C,,C,NONE,C,1'), {
    AIR: '19.52 Cel',
    Barometer: '1.02481 bar',
    PITCH: '-12 deg',
    X: '1 1',
    NONE: 'null Cel',
  })
  assert.equal(transducerUnit('constructor', 'name'), '1')
})

test('text that is no sentence, or an unknown one, gives nothing', () => {
  const reader = new NmeaReader()
  const sink = { put: () => assert.fail('nothing'), transducer: () => assert.fail('nothing') }
  for (const text of [
    '',
    'hello',
    '$',
    '$GP',
    '$GPZDA,201530.00,04,07,2002,00,00',
    '!AIVDM,1,1,,A,13,0',
    '$PGRME,15.0,M',
    '$gpgga,1',
  ])
    assert.equal(reader.read(text, sink, 0), false, text)
})
