// Options of a source of type `can` in Config.json. Loads only the schema.
import * as v from 'valibot'
import { channelEntries, interval, maxAge, sensorId, strict, whole } from '../../kit/common-options'

const pattern = v.pipe(v.string(), v.minLength(1), v.maxLength(200))

/** bytes; the kernel allows itself twice as much, and a frame takes about 800 */
export const RECEIVE_BUFFER = 4 << 20

const signalChannel = strict({
  /** default: the signal's name, prefixed with its message's name if two messages have it */
  id: v.optional(sensorId),
  ...channelEntries,
})

export const canSourceOptions = strict({
  /** as `ip link` shows it: can0 */
  interface: v.pipe(v.string(), v.regex(/^[^\s/]{1,15}$/, 'the name of a CAN interface such as can0')),
  /** path of the DBC file */
  dbc: v.pipe(v.string(), v.minLength(1)),
  /** `Message`, `Message.Signal` or `Signal`, also as globs (`EEC*`) or /regular expression/; default: every signal */
  match: v.optional(v.nullable(v.union([pattern, v.pipe(v.array(pattern), v.minLength(1), v.maxLength(256))]))),
  /** true: 29-bit ids are parameter groups, whatever their priority and source; left out: as the DBC file says */
  j1939: v.optional(v.boolean()),
  /** J1939: accept only this station */
  source_address: v.optional(whole(0, 253)),
  /** accept CAN FD frames too; left out: if a chosen message has more than 8 bytes */
  fd: v.optional(v.boolean()),
  /** kernel buffer while the gateway is busy: one second of a full 1 Mbit/s bus */
  receive_buffer_bytes: v.optional(whole(4096, 64 << 20), RECEIVE_BUFFER),
  interval_ms: interval(1000, 10),
  max_age_ms: maxAge(10_000),
  /** a value outside the limits of the DBC file is an error */
  check_range: v.optional(v.boolean(), false),
  /** names of values (VAL_) become status words */
  value_words: v.optional(v.boolean(), false),
  /** by `Message.Signal` or `Signal` */
  channels: v.optional(v.record(v.string(), signalChannel), {}),
})

export type CanSourceOptions = v.InferOutput<typeof canSourceOptions>
