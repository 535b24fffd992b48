// Parses NMEA 0183 sentences of any talker. Pure. An empty field, a field that is not a number, or a sentence that
// marks its data as invalid gives null: the device has no value now. Unknown sentences are ignored. Time and date are
// not read: the gateway has its own clock.

/** channel → unit; the comments explain it */
export const NMEA_CHANNELS = {
  // degrees as an annotation: in radians, with the four decimals of the wire format, a position would be accurate to
  // only 600 m
  lat: '{deg}',
  lon: '{deg}',
  altitude: 'm',
  speed: 'm/s',
  course: 'deg',
  satellites: '{satellites}',
  satellites_in_view: '{satellites}',
  /** GGA: 0 none, 1 GNSS, 2 differential, 4 RTK, 5 float RTK, 6 estimated */
  fix: '1',
  /** GSA: 1 none, 2 two dimensions, 3 three */
  fix_mode: '1',
  hdop: '1',
  vdop: '1',
  pdop: '1',
  heading: 'deg',
  heading_magnetic: 'deg',
  depth: 'm',
  water_temperature: 'Cel',
  /** relative to the bow, as felt on board */
  wind_angle: 'deg',
  wind_speed: 'm/s',
  wind_angle_true: 'deg',
  wind_speed_true: 'm/s',
} as const
export type NmeaChannel = keyof typeof NMEA_CHANNELS
export const NMEA_NAMES = Object.keys(NMEA_CHANNELS) as NmeaChannel[]

/** Channels of a satellite receiver. */
export const GNSS_CHANNELS: readonly NmeaChannel[] = [
  'lat',
  'lon',
  'altitude',
  'speed',
  'course',
  'satellites',
  'hdop',
  'fix',
]

export interface NmeaSink {
  put(channel: NmeaChannel, value: number | null): void
  /** a transducer of XDR: its name, value and the unit in the sentence, as UCUM */
  transducer(name: string, value: number | null, unit: string): void
}

const KNOT = 1852 / 3600
const NUMBER = /^[+-]?\d{1,15}(?:\.\d{0,15})?$/

const number = (text: string | undefined): number | null =>
  text !== undefined && NUMBER.test(text) ? Number(text) : null

const times = (value: number | null, factor: number): number | null => (value === null ? null : value * factor)

const ifInRange = (value: number | null, least: number, most: number): number | null =>
  value === null || value < least || value > most ? null : value

/** `4807.038,N` in degrees; south and west are negative. */
function degrees(text: string | undefined, side: string | undefined, sides: string, most: number): number | null {
  const [, whole, minutes] = /^(\d{1,3})(\d\d(?:\.\d{0,12})?)$/.exec(text ?? '') ?? []
  const way = side ? sides.indexOf(side) : -1
  if (whole === undefined || way < 0 || Number(minutes) >= 60) return null
  const value = Number(whole) + Number(minutes) / 60
  return value > most ? null : way === 0 ? value : -value
}

function position(f: readonly string[], at: number, sink: NmeaSink, valid: boolean): void {
  const lat = degrees(f[at], f[at + 1], 'NS', 90)
  const lon = degrees(f[at + 2], f[at + 3], 'EW', 180)
  const both = valid && lat !== null && lon !== null
  sink.put('lat', both ? lat : null)
  sink.put('lon', both ? lon : null)
}

/** unit letter → metres per second: K (km/h), M (m/s), N (knots), S (miles per hour) */
const SPEEDS: Readonly<Record<string, number>> = { K: 1 / 3.6, M: 1, N: KNOT, S: 0.44704 }
/** mode of newer receivers: N is invalid, E estimated (dead reckoning is accepted) */
const isValid = (mode: string | undefined): boolean => mode !== 'N'

/** Corrects a compass heading for the ship's own deviation: easterly is added, westerly subtracted. */
function deviated(heading: number | null, text: string | undefined, side: string | undefined): number | null {
  const deviation = number(text)
  if (heading === null || deviation === null || (side !== 'E' && side !== 'W')) return heading
  const magnetic = side === 'E' ? heading + deviation : heading - deviation
  return ifInRange(magnetic < 0 ? magnetic + 360 : magnetic >= 360 ? magnetic - 360 : magnetic, 0, 360)
}

type Handler = (fields: readonly string[], sink: NmeaSink) => void

const HANDLERS: Readonly<Record<string, Handler>> = {
  GGA: (f, sink) => {
    const fix = ifInRange(number(f[6]), 0, 9)
    const valid = fix !== null && fix > 0
    sink.put('fix', fix)
    position(f, 2, sink, valid)
    sink.put('satellites', number(f[7]))
    sink.put('hdop', valid ? number(f[8]) : null)
    sink.put('altitude', valid && f[10] === 'M' ? number(f[9]) : null)
  },
  RMC: (f, sink) => {
    const valid = f[2] === 'A' && isValid(f[12])
    position(f, 3, sink, valid)
    sink.put('speed', valid ? times(number(f[7]), KNOT) : null)
    sink.put('course', valid ? ifInRange(number(f[8]), 0, 360) : null)
  },
  GLL: (f, sink) => position(f, 1, sink, f[6] === 'A' && isValid(f[7])),
  VTG: (f, sink) => {
    const valid = isValid(f[9])
    sink.put('course', valid && f[2] === 'T' ? ifInRange(number(f[1]), 0, 360) : null)
    sink.put('speed', valid && f[6] === 'N' ? times(number(f[5]), KNOT) : null)
  },
  GSA: (f, sink) => {
    sink.put('fix_mode', ifInRange(number(f[2]), 1, 3))
    sink.put('pdop', number(f[15]))
    sink.put('hdop', number(f[16]))
    sink.put('vdop', number(f[17]))
  },
  HDT: (f, sink) => sink.put('heading', f[2] === 'T' ? ifInRange(number(f[1]), 0, 360) : null),
  HDM: (f, sink) => sink.put('heading_magnetic', f[2] === 'M' ? ifInRange(number(f[1]), 0, 360) : null),
  HDG: (f, sink) => sink.put('heading_magnetic', deviated(ifInRange(number(f[1]), 0, 360), f[2], f[3])),
  DBT: (f, sink) => sink.put('depth', f[4] === 'M' ? number(f[3]) : null),
  DPT: (f, sink) => sink.put('depth', number(f[1])),
  MTW: (f, sink) => sink.put('water_temperature', f[2] === 'C' ? number(f[1]) : null),
  MWV: (f, sink) => {
    if (f[2] !== 'R' && f[2] !== 'T') return
    const factor = SPEEDS[f[4] ?? '']
    const valid = f[5] === 'A'
    const angle = valid ? ifInRange(number(f[1]), 0, 360) : null
    const speed = valid && factor !== undefined ? times(number(f[3]), factor) : null
    sink.put(f[2] === 'R' ? 'wind_angle' : 'wind_angle_true', angle)
    sink.put(f[2] === 'R' ? 'wind_speed' : 'wind_speed_true', speed)
  },
  XDR: (f, sink) => {
    for (let k = 1; k + 3 < f.length; k += 4) {
      const unit = transducerUnit(f[k]!, f[k + 2]!)
      if (f[k + 3] !== '') sink.transducer(f[k + 3]!, number(f[k + 1]), unit)
    }
  },
}

/** transducer type and unit letter → UCUM; '1' for no unit */
const TRANSDUCERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  A: { D: 'deg', R: 'rad' },
  C: { C: 'Cel', F: '[degF]', K: 'K' },
  D: { M: 'm', F: '[ft_i]', I: '[in_i]' },
  F: { H: 'Hz' },
  H: { P: '%' },
  I: { A: 'A' },
  N: { N: 'N' },
  P: { B: 'bar', P: 'Pa' },
  R: { L: 'L/s' },
  T: { R: '/min' },
  U: { V: 'V' },
  V: { M: 'm3', L: 'L', P: '%' },
  E: { P: '%', L: 'L', M: 'm3' },
}

export const transducerUnit = (type: string, unit: string): string =>
  (Object.hasOwn(TRANSDUCERS, type) ? TRANSDUCERS[type]![unit] : undefined) ?? '1'

/** satellites in view, by talker: each system counts its own. Limits the number of talkers. */
const MAX_TALKERS = 12
/** GSV is sent every few seconds; an older count is ignored */
const TALKER_MS = 15_000

export class NmeaReader {
  readonly #inView = new Map<string, { count: number; at: number }>()

  /** Parses a sentence without its checksum; false if it is not one or is unknown. `now` is monotonic ms. */
  read(text: string, sink: NmeaSink, now: number): boolean {
    const [, talker, type] = /^\$([A-Z][A-Z0-9])([A-Z]{3}),/.exec(text) ?? []
    if (talker === undefined || type === undefined) return false
    const fields = text.split(',', 128)
    if (type === 'GSV') return this.#view(talker, number(fields[3]), sink, now)
    const handler = Object.hasOwn(HANDLERS, type) ? HANDLERS[type] : undefined
    handler?.(fields, sink)
    return handler !== undefined
  }

  #view(talker: string, count: number | null, sink: NmeaSink, now: number): boolean {
    const seen = this.#inView
    if (count !== null && (seen.has(talker) || seen.size < MAX_TALKERS)) seen.set(talker, { count, at: now })
    let sum = 0
    for (const [key, { count: own, at }] of seen) {
      if (now - at > TALKER_MS) seen.delete(key)
      else sum += own
    }
    sink.put('satellites_in_view', count === null && seen.size === 0 ? null : sum)
    return true
  }
}
