// The sources `line` and `nmea`: a line feed, a parser of its lines, and the latest-value base. With `poll` a line
// source queries its device before every reading and waits for the answer.
//
// Errors: the port (down with what to do, reopened when it returns); a device that is silent or does not answer (its
// channels are ERROR after the age limit); a query that cannot be written (the link is lost).
import { OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, Line, Source } from '../../src/links/contracts'
import { safeName } from '../../src/links/names'
import { type Resolved, resolve } from '../../src/units/canonical'
import { chooseChannels, distinctIds, ValueChannel } from '../kit/channel'
import { LatestSource } from '../kit/latest-source'
import { LineFeed, type LineFeedOptions } from './feed'
import type { LineOptions, NmeaOptions } from './line-options'
import { NMEA_CHANNELS, type NmeaChannel, NmeaReader, type NmeaSink } from './nmea'
import { groupsOf, patternReader } from './pattern'
import { type QueriedLine, QueryFeed, QuerySource } from './query-feed'

interface LineContext extends DriverContext {
  /** for tests */
  timers?: Timers
}

const MAX_AGE_MS = 10_000
/** share of a poll's interval for the answer; the remaining time is for the reading itself */
const ANSWER_SHARE = 0.9
/** the standard limits sentences to 82 characters; receivers send longer ones */
const MAX_SENTENCE = 256

/** A source that reads lines by regular expressions. Throws CONFIG_INVALID. */
export function createLineSource(
  name: string,
  options: LineOptions,
  line: Line & QueriedLine,
  context: LineContext,
): Source {
  const { clock, timers = systemTimers } = context
  const { poll, channels: channelOptions, interval_ms: intervalMs } = options
  const patterns = [options.pattern].flat()
  const keys = [...new Set(patterns.flatMap(groupsOf))]
  for (const key of Object.keys(channelOptions))
    if (!keys.includes(key))
      throw new OsError('CONFIG_INVALID', `options of ${name}: channels.${key}: pattern has no group of this name`, {
        hint: `there are: ${keys.join(', ')}`,
      })
  const channels = keys.map(key => {
    const own = channelOptions[key]
    return new ValueChannel({ ...own, id: own?.id ?? idOf(name, key, keys.length), unit: own?.unit ?? '1' })
  })
  const groups = new Map(keys.map((key, place) => [key, { place, options: channelOptions[key] ?? {} }]))
  const feed = new LineFeed({
    line,
    separator: Buffer.from(options.separator, 'latin1'),
    maxLength: options.max_length,
    encoding: options.encoding === 'utf8' ? 'utf8' : 'latin1',
    checksum: options.checksum,
    read: patternReader(patterns, options.ignore_case, groups),
    now: () => clock.mono(),
  })
  const timeoutMs = Math.min(options.timeout_ms, intervalMs * ANSWER_SHARE)
  const maxAgeMs = options.max_age_ms ?? (poll === undefined ? MAX_AGE_MS : timeoutMs)
  const latest = { type: 'line', intervalMs, maxAgeMs, channels, clock, timers }
  if (poll === undefined) return new LatestSource(name, latest, feed)
  const text = Buffer.from(poll, 'latin1')
  const queryFeed = new QueryFeed(feed, line, { text, timeoutMs, channels: channels.length, timers })
  return new QuerySource(name, latest, queryFeed)
}

const idOf = (source: string, key: string, count: number): string =>
  count === 1 ? source : `${source}_${safeName(key)}`

interface Transducer {
  readonly place: number
  readonly unit: string
  readonly conversion: Resolved
}

/** A source that reads NMEA 0183. Throws CONFIG_INVALID. */
export function createNmeaSource(name: string, options: NmeaOptions, line: Line, context: LineContext): Source {
  const { clock, timers = systemTimers } = context
  const { read, transducers: wanted, interval_ms: intervalMs, max_age_ms: maxAgeMs } = options
  const specs = [...new Set(read)].map(key => ({ key, unit: NMEA_CHANNELS[key] }))
  const chosen =
    specs.length > 0 ? chooseChannels(name, specs, options.channels) : { channels: [] as ValueChannel[], places: [] }
  const channels = [...chosen.channels]
  const places = new Map<NmeaChannel, number>(chosen.places.map((at, place) => [specs[at]!.key, place]))
  const transducers = new Map<string, Transducer>()
  for (const [key, own] of Object.entries(wanted)) {
    const conversion = resolve(own.unit)
    if (!conversion)
      throw new OsError('CONFIG_INVALID', `options of ${name}: transducers.${key}.unit: ${own.unit} is no unit`)
    transducers.set(key, { place: channels.length, unit: own.unit, conversion: conversion })
    channels.push(new ValueChannel({ ...own, id: own.id ?? `${name}_${safeName(key)}` }))
  }
  if (channels.length === 0) throw new OsError('CONFIG_INVALID', `options of ${name}: read names no channel`)
  distinctIds(channels, name)
  const feed = new LineFeed({
    line,
    separator: Buffer.from('\n'),
    maxLength: MAX_SENTENCE,
    encoding: 'latin1',
    checksum: 'nmea',
    checksumRequired: options.require_checksum,
    read: nmeaReader(places, transducers),
    now: () => clock.mono(),
  })
  return new LatestSource(name, { type: 'nmea', intervalMs, maxAgeMs, channels, clock, timers }, feed)
}

const NO_VALUE = 'reported without a value'

function nmeaReader(
  places: ReadonlyMap<NmeaChannel, number>,
  transducers: ReadonlyMap<string, Transducer>,
): LineFeedOptions['read'] {
  const reader = new NmeaReader()
  return (text, take, now) => {
    const sink: NmeaSink = {
      put: (channel, value) => {
        const place = places.get(channel)
        if (place !== undefined) take(place, value, value === null ? NO_VALUE : undefined)
      },
      transducer: (key, value, unit) => {
        const found = transducers.get(key)
        if (!found) return
        const there = converted(value, unit, found)
        if (value === null) take(found.place, null, NO_VALUE)
        else take(found.place, there, there === null ? `comes in ${unit}, not in ${found.unit}` : undefined)
      },
    }
    return reader.read(text, sink, now)
  }
}

/**
 * Converts a value from the unit `from` to the transducer's unit; null if the units have different dimensions. A value
 * without a unit is not converted.
 */
function converted(value: number | null, from: string, { unit, conversion }: Transducer): number | null {
  if (value === null || from === '1' || from === unit) return value
  const unitOf = resolve(from)
  if (unitOf?.canonical !== conversion.canonical) return null
  return (value * unitOf.factor + unitOf.offset - conversion.offset) / conversion.factor
}
