// Options of the sources that read advertisements, as entries of gateway.sources[]. One source is one device, and its
// channels are sent together (decision 0025); any number of sources can share an adapter.
import * as v from 'valibot'
import { channelEntries, fixedChannels, interval, maxAge, sensorId, strict, whole } from '../kit/common-options'
import { bleAddress } from './ad'
import { bthomeKeys, channelUnit } from './bthome-objects'
import { COMMON_CHANNELS } from './codec'
import { EDDYSTONE_CHANNELS } from './eddystone'
import { IBEACON_CHANNELS } from './ibeacon'
import { RUUVI_CHANNELS } from './ruuvi'

const hex = (digits: number, what: string) =>
  v.pipe(
    v.string(),
    v.transform(text => text.replace(/[-:\s]/g, '').toLowerCase()),
    v.regex(new RegExp(`^[0-9a-f]{${digits}}$`), `${what} is ${digits} hex digits`),
  )

const address = v.pipe(
  v.string(),
  v.transform(text => bleAddress(text) ?? ''),
  v.nonEmpty('an address is like a4:c1:38:8d:18:b2'),
)

const common = {
  /** hci0 …, as ls /sys/class/bluetooth shows it */
  adapter: v.optional(v.pipe(v.string(), v.regex(/^hci\d{1,2}$/, 'an adapter is called hci0, hci1 …')), 'hci0'),
  /** scan as Bluetooth 5 does: for advertisements longer than 31 bytes */
  extended_scan: v.optional(v.boolean(), false),
  interval_ms: interval(10_000),
  /** a value older than this is reported as missing */
  max_age_ms: maxAge(300_000),
  /** channel presence: a device not heard for longer counts as away */
  away_ms: v.optional(whole(1000, 86_400_000), 60_000),
  /** a scan that hears nothing at all for this long is recovered step by step */
  silence_ms: v.optional(whole(1000, 3_600_000), 60_000),
}

const keysOf = (specs: readonly { readonly key: string }[]): string[] =>
  [...specs, ...COMMON_CHANNELS].map(({ key }) => key)

const commonKeys = new Set<string>(COMMON_CHANNELS.map(({ key }) => key))
const bthomeKey = v.pipe(
  v.string(),
  v.check(
    key => commonKeys.has(key) || channelUnit(key) !== undefined,
    issue =>
      `${issue.input} is no measurement of BTHome; there are ${[...commonKeys, ...bthomeKeys()].join(', ')}, and the same with _2, _3 … for a second one`,
  ),
)
const bthomeChannel = strict({ enabled: v.optional(v.boolean(), true), id: v.optional(sensorId), ...channelEntries })

export const bthomeOptions = strict({
  ...common,
  address,
  /** 32 hex digits, from the device's app, for a device that encrypts */
  bind_key: v.optional(hex(32, 'a bind key')),
  /** channels to log; os-node source test lists those of the device */
  channels: v.optional(v.record(bthomeKey, bthomeChannel), {}),
})

export const ibeaconOptions = strict({
  ...common,
  uuid: hex(32, 'a UUID'),
  major: v.optional(whole(0, 65_535)),
  minor: v.optional(whole(0, 65_535)),
  address: v.optional(address),
  /** 2 outdoors, 2.5 to 4 indoors */
  path_loss: v.optional(v.pipe(v.number(), v.minValue(1), v.maxValue(8)), 2.5),
  channels: fixedChannels(keysOf(IBEACON_CHANNELS)),
})

export const eddystoneOptions = strict({ ...common, address, channels: fixedChannels(keysOf(EDDYSTONE_CHANNELS)) })

export const ruuviOptions = strict({ ...common, address, channels: fixedChannels(keysOf(RUUVI_CHANNELS)) })

export type CommonOptions = Pick<v.InferOutput<typeof eddystoneOptions>, Exclude<keyof typeof common, never>>
