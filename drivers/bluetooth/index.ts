// Bluetooth Low Energy: packets over the Nordic UART service (this gateway is the central), and sources that read
// advertisements: BTHome v2, iBeacon, Eddystone telemetry, Ruuvi. Declarations only; medium.ts, adapter.ts and feed.ts
// describe the errors. Only the UDP substitute uses port 5454, if the options name it (decision 0037).
import type { GenericSchema } from 'valibot'
import { OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, Medium, MediumDriver, SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import type { FixedChannel } from '../kit/common-options'
import type { Adapter } from './adapter'
import { sharedAdapter } from './adapters'
import { type AdvertisedOptions, AdvertisedSource, type SourceParts } from './advertisement-source'
import { type BluetoothOptions, bluetoothOptions } from './bluetooth-options'
import { BthomeDecoder } from './bthome'
import { BthomeCipher } from './bthome-cipher'
import { channelUnit } from './bthome-objects'
import { EDDYSTONE_CHANNELS, EddystoneDecoder } from './eddystone'
import { IBEACON_CHANNELS, IbeaconDecoder } from './ibeacon'
import { type NusOptions, PeersMedium, peerMedium } from './medium'
import { RUUVI_CHANNELS, RUUVI_USUAL, RuuviDecoder } from './ruuvi'
import { UdpShim } from './shim'
import { bthomeOptions, type CommonOptions, eddystoneOptions, ibeaconOptions, ruuviOptions } from './source-options'

const wrong = (link: string, key: string, text: string): OsError =>
  new OsError('CONFIG_INVALID', `options of ${link}: ${key}: ${text}`, { details: { link, keys: [key] } })

/** A medium over the radio, or its UDP substitute. Throws CONFIG_INVALID. `parts` replaces radio and clock in tests. */
export function createBluetooth(
  name: string,
  raw: unknown,
  context: DriverContext,
  parts: { adapter?: Adapter; timers?: Timers } = {},
): Medium {
  const options = checkOptions(bluetoothOptions, raw, name)
  const { clock, logger } = context
  if (options.shim === 'udp' || options.mode === 'udp_shim') {
    const { host = '127.0.0.1', port, max_packet: maxPacket } = options
    return new UdpShim(name, { listen: options.mode === 'listen', host, port, maxPacket, logger })
  }
  const peers = options.peers ?? []
  if (!/^hci\d{1,2}$/.test(options.adapter)) throw wrong(name, 'adapter', 'an adapter is called hci0, hci1 …')
  if (peers.length === 0) throw wrong(name, 'peers', 'list them; btmgmt find -l shows addresses and names')
  const nus: NusOptions = {
    adapter: parts.adapter ?? sharedAdapter(options.adapter, options.extended_scan, context),
    framing: options.framing,
    maxPacket: options.max_packet,
    findMs: options.find_timeout_ms,
    connectMs: options.connect_timeout_ms,
    silenceMs: options.silence_ms,
    clock,
    timers: parts.timers ?? systemTimers,
    logger,
  }
  if (options.mode === 'listen') return new PeersMedium(name, peers, nus)
  if (peers.length > 1) throw wrong(name, 'peers', 'a sending link needs one peer')
  return peerMedium(name, 'send', peers[0]!, nus)
}

export const bluetoothDriver: MediumDriver<BluetoothOptions> = {
  medium: 'Bluetooth',
  schema: bluetoothOptions,
  create: (name, options, context) => createBluetooth(name, options, context),
}

export type AdvertisementType = 'bthome' | 'ibeacon' | 'eddystone' | 'ruuvi'

type Channels = Readonly<Record<string, FixedChannel | undefined>>

/** Every usual channel, as changed or switched off by the options, plus the other channels in the options. */
function withUsual(usual: readonly string[], chosen: Channels = {}): Channels {
  return { ...Object.fromEntries(usual.map(key => [key, chosen[key] ?? { enabled: true }])), ...chosen }
}

const unitIn =
  (specs: readonly { readonly key: string; readonly unit: string }[]) =>
  (key: string): string | undefined =>
    specs.find(spec => spec.key === key)?.unit

const source = <Options extends CommonOptions>(
  type: AdvertisementType,
  schema: GenericSchema<unknown, Options>,
  made: (options: Options) => Omit<AdvertisedOptions, 'type' | 'options'>,
) => ({
  type,
  schema: schema as GenericSchema<unknown, CommonOptions>,
  create: (name: string, raw: unknown, context: DriverContext, parts?: SourceParts) => {
    const options = checkOptions(schema, raw, name)
    return new AdvertisedSource(name, { type, options, ...made(options) }, context, parts)
  },
})

/** type → driver. `create` accepts `parts` in place of the machine's. */
export const advertisementSources = {
  bthome: source('bthome', bthomeOptions, ({ address, bind_key, channels }) => {
    const cipher = bind_key === undefined ? undefined : new BthomeCipher(Buffer.from(bind_key, 'hex'))
    return { address, unitOf: channelUnit, channels, decoder: () => new BthomeDecoder(cipher) }
  }),
  ibeacon: source('ibeacon', ibeaconOptions, options => ({
    address: options.address ?? null,
    unitOf: unitIn(IBEACON_CHANNELS),
    channels: withUsual(['presence', 'rssi', 'distance'], options.channels),
    decoder: () => new IbeaconDecoder(options, options.path_loss),
  })),
  eddystone: source('eddystone', eddystoneOptions, ({ address, channels }) => ({
    address,
    unitOf: unitIn(EDDYSTONE_CHANNELS),
    channels: withUsual(['battery', 'temperature', 'advertisements', 'uptime'], channels),
    decoder: () => new EddystoneDecoder(),
  })),
  ruuvi: source('ruuvi', ruuviOptions, ({ address, channels }) => ({
    address,
    unitOf: unitIn(RUUVI_CHANNELS),
    channels: withUsual(RUUVI_USUAL, channels),
    decoder: () => new RuuviDecoder(),
  })),
} satisfies Record<AdvertisementType, SourceDriver>
