// What Config.json may say of sources that read lines from a serial port. Loads nothing but the schemas.
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
    return false // that is the answer
  }
}

const list = <T extends v.GenericSchema>(one: T) =>
  v.union([one, v.pipe(v.array(one), v.minLength(1), v.maxLength(16))])

const lineChannel = strict({
  /** default: name of the source and of the group */
  id: v.optional(sensorId),
  ...channelEntries,
  /** of the number in the text */
  base: v.optional(v.picklist([10, 16])),
  /** numbers for words: {"ON": 1, "OFF": 0} */
  words: v.optional(v.record(v.string(), finite)),
})

/** Escapes of JSON do not reach a person who types `\r` twice escaped: both are understood. */
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
    /** ends a line; after a line feed a carriage return before it belongs to it */
    separator: v.optional(v.pipe(escaped, v.maxLength(8)), '\n'),
    encoding: v.optional(v.picklist(['latin1', 'utf8', 'ascii']), 'latin1'),
    /** bytes; a longer line is left out */
    max_length: v.optional(whole(8, MAX_LENGTH), 256),
    checksum: v.optional(v.picklist(CHECKSUMS), 'none'),
    /** sent before every reading, for devices that speak when asked */
    poll: v.optional(escaped),
    /** how long the answer to it may take */
    timeout_ms: v.optional(whole(20, 9000), 1000),
    interval_ms: interval(1000, POLL_MS),
    /** left out: 10 s, or the time of the answer with poll */
    max_age_ms: v.optional(whole(100, 86_400_000)),
    /** by the name of the group */
    channels: v.optional(v.record(v.string(), lineChannel), {}),
  }),
  v.check(
    ({ pattern: patterns, max_length }) => ![patterns].flat().some(one => compiles(one) && tooSlow(one, max_length)),
    'pattern takes too long on some lines: it would stop the gateway. Nested repeats such as (a+)+ are the usual reason',
  ),
)
export type LineOptions = v.InferOutput<typeof lineOptions>

/** XDR says its unit with every value, but a group has its units from the beginning. */
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
  /** transducers of XDR sentences, by their name */
  transducers: v.optional(v.record(v.pipe(v.string(), v.minLength(1), v.maxLength(40)), transducer), {}),
  /** false: sentences without a checksum count too; a wrong one never does */
  require_checksum: v.optional(v.boolean(), true),
  interval_ms: interval(1000),
  max_age_ms: maxAge(10_000),
  /** by the name of the channel */
  channels: fixedChannels(NMEA_NAMES),
})
export type NmeaOptions = v.InferOutput<typeof nmeaOptions>
