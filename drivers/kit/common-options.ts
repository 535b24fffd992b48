// Options shared by all sources of drivers/, as valibot fragments. An unknown option is an error that names the most
// similar option: silently ignored, a misspelt option would be hard to find.
import * as v from 'valibot'
import { noSuchOption } from '../../src/links/driver-options'

/** An object with exactly these options; the message for an unknown one names the most similar. */
export const strict = <E extends v.ObjectEntries>(entries: E) =>
  v.strictObject(entries, issue => {
    if (issue.expected !== 'never') return issue.expected === 'Object' ? 'must be an object' : 'is required'
    return noSuchOption(String(issue.input).replaceAll('"', ''), Object.keys(entries))
  })

export const finite = v.pipe(v.number(), v.finite())

/** A whole number within bounds. */
export const whole = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max))

/**
 * Minimum `interval_ms` of a source polled on a bus: each fact of a device needs its own millisecond, with some left
 * for other sources.
 */
export const POLL_MS = 2

/** `interval_ms` with the type's default. */
export const interval = (standard: number, min = 100) => v.optional(whole(min, 86_400_000), standard)

/** `max_age_ms` of values that arrive unrequested: an older value counts as missing. */
export const maxAge = (standard: number) => v.optional(whole(100, 86_400_000), standard)

/** Sensor ids as the wire format allows them. */
export const sensorId = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9_-]{1,64}$/, 'a name of 1 to 64 letters, digits, _ or -'),
)

const BOUNDS = ['above', 'below', 'from', 'to', 'equals'] as const

const statusRule = v.pipe(
  strict({
    /** the reading's status when all the bounds are met */
    status: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]{1,32}$/, 'a word of letters, digits, _ or -')),
    /** value > */
    above: v.optional(finite),
    /** value < */
    below: v.optional(finite),
    /** value >= */
    from: v.optional(finite),
    /** value <= */
    to: v.optional(finite),
    /** value equals this, or one of these */
    equals: v.optional(v.union([finite, v.pipe(v.array(finite), v.minLength(1))])),
  }),
  v.check(rule => BOUNDS.some(bound => rule[bound] !== undefined), `needs one of ${BOUNDS.join(', ')}`),
)

export type StatusRule = v.InferOutput<typeof statusRule>

/** Options of a channel of any source. */
export const channelEntries = {
  /** UCUM unit of the value after scale and offset */
  unit: v.optional(v.pipe(v.string(), v.maxLength(64))),
  /** value = raw * scale + offset */
  scale: v.optional(v.pipe(finite, v.notValue(0, 'must not be 0'))),
  offset: v.optional(finite),
  /** the first rule that matches sets the status, else OK; ERROR removes the value */
  status: v.optional(v.array(statusRule)),
}

const fixedChannel = strict({
  /** false: not logged */
  enabled: v.optional(v.boolean(), true),
  /** default: name of the source and of the channel */
  id: v.optional(sensorId),
  ...channelEntries,
})

export type FixedChannel = v.InferOutput<typeof fixedChannel>

/** `channels: {temperature: {id, enabled, unit, scale, offset, status}, …}` of a device with known channels. */
export const fixedChannels = (keys: readonly string[]) =>
  v.optional(strict(Object.fromEntries(keys.map(key => [key, v.optional(fixedChannel)]))))
