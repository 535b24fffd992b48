// Config.json options of sources that read lines from a serial port. Loads only the schemas.
import * as v from 'valibot'
import {
  channelEntries,
  finite,
  fixedChannels,
  interval,
  maxAge,
  POLL_MS,
  sensorId,
  strict,
  whole,
} from '../kit/common-options'
import { serialEntries } from '../serial'
import { CHECKSUMS } from './checksum'
import { GNSS_CHANNELS, NMEA_NAMES } from './nmea'
import { groupsOf, tooSlow } from './pattern'

const serial = (baudrate: number) => ({
  ...serialEntries(baudrate),
  port: v.pipe(v.string(), v.minLength(1, 'the serial port, for example /dev/serial/by-id/…')),
})

const MAX_LENGTH = 4096

const pattern = v.pipe(
  v.string(),
  v.minLength(1),
  v.maxLength(1000),
  v.check(compiles, 'is not a regular expression'),
  v.check(
    text => !compiles(text) || groupsOf(text).length > 0,
    'needs a named group, for example T=(?<temperature>[-0-9.]+)',
  ),
)

function compiles(text: string): boolean {
  try {
    groupsOf(text)
    return true
  } catch {
    return false // not a valid expression
  }
}

const list = <T extends v.GenericSchema>(one: T) =>
  v.union([one, v.pipe(v.array(one), v.minLength(1), v.maxLength(16))])

const lineChannel = strict({
  /** default: name of the source and of the group */
  id: v.optional(sensorId),
  ...channelEntries,
  /** base of the number in the text */
  base: v.optional(v.picklist([10, 16])),
  /** numbers for words: {"ON": 1, "OFF": 0} */
  words: v.optional(v.record(v.string(), finite)),
})

/** People often type `\r` with a doubled backslash: both forms are accepted. */
const escaped = v.pipe(
  v.string(),
  v.minLength(1),
  v.maxLength(256),
  v.transform(text =>
    text.replace(/\\(r|n|t|0|\\|x[0-9a-fA-F]{2})/g, (_, code: string) =>
      code[0] === 'x' ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : ESCAPES[code]!,
    ),
  ),
)
const ESCAPES: Readonly<Record<string, string>> = { r: '\r', n: '\n', t: '\t', 0: '\0', '\\': '\\' }

export const lineOptions = v.pipe(
  strict({
    ...serial(9600),
    /** regular expressions; every named group is a channel */
    pattern: list(pattern),
    ignore_case: v.optional(v.boolean(), false),
    /** ends a line; if it begins with a line feed, a carriage return before it is dropped */
    separator: v.optional(v.pipe(escaped, v.maxLength(8)), '\n'),
    encoding: v.optional(v.picklist(['latin1', 'utf8', 'ascii']), 'latin1'),
    /** bytes; a longer line is dropped */
    max_length: v.optional(whole(8, MAX_LENGTH), 256),
    checksum: v.optional(v.picklist(CHECKSUMS), 'none'),
    /** sent before every reading, for devices that answer only on request */
    poll: v.optional(escaped),
    /** time limit for the answer */
    timeout_ms: v.optional(whole(20, 9000), 1000),
    interval_ms: interval(1000, POLL_MS),
    /** left out: 10 s, or with poll the time limit of the answer */
    max_age_ms: v.optional(whole(100, 86_400_000)),
    /** by the name of the group */
    channels: v.optional(v.record(v.string(), lineChannel), {}),
  }),
  v.check(
    ({ pattern: patterns, max_length }) => ![patterns].flat().some(one => compiles(one) && tooSlow(one, max_length)),
    'pattern takes too long on some lines. Nested repeats such as (a+)+ are the usual reason',
  ),
)
export type LineOptions = v.InferOutput<typeof lineOptions>

/** XDR sends the unit with every value, but the units of a group are fixed. */
const transducer = strict({
  id: v.optional(sensorId),
  ...channelEntries,
  /** UCUM; a value in another unit is converted */
  unit: v.pipe(v.string(), v.minLength(1), v.maxLength(64)),
})

export const nmeaOptions = strict({
  ...serial(4800),
  /** which channels, in this order */
  read: v.optional(v.pipe(v.array(v.picklist(NMEA_NAMES)), v.maxLength(NMEA_NAMES.length)), [...GNSS_CHANNELS]),
  /** transducers of XDR sentences, by name */
  transducers: v.optional(v.record(v.pipe(v.string(), v.minLength(1), v.maxLength(40)), transducer), {}),
  /** false: accept sentences without a checksum; a wrong one is always refused */
  require_checksum: v.optional(v.boolean(), true),
  interval_ms: interval(1000),
  max_age_ms: maxAge(10_000),
  /** by the name of the channel */
  channels: fixedChannels(NMEA_NAMES),
})
export type NmeaOptions = v.InferOutput<typeof nmeaOptions>
