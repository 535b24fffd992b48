// iBeacon (Apple, company 0x004C): 02 15, a UUID of 16 bytes, major and minor (big-endian), and the signal strength at
// one metre in dBm. No errors; another beacon is ignored.
import { manufacturerData } from './ad'
import type { Decoder, Emit, Verdict } from './codec'

const APPLE = 0x004c
const TYPE = 0x02
const LENGTH = 0x15

interface Ibeacon {
  /** 32 hex digits, lower case */
  readonly uuid: string
  readonly major: number
  readonly minor: number
  /** dBm at one metre */
  readonly measuredPower: number
}

/** The beacon in an advertisement's structures, or null. */
export function parseIbeacon(data: Uint8Array): Ibeacon | null {
  const body = manufacturerData(data, APPLE)
  if (!body || body.length < 23 || body[0] !== TYPE || body[1] !== LENGTH) return null
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  return {
    uuid: bytes.toString('hex', 2, 18),
    major: bytes.readUInt16BE(18),
    minor: bytes.readUInt16BE(20),
    measuredPower: bytes.readInt8(22),
  }
}

/**
 * Distance in metres, from the loss of signal strength relative to one metre; `pathLoss` is 2 outdoors and 2.5 to 4
 * indoors. An estimate: a person in between adds several metres.
 */
export const distance = (measuredPower: number, rssi: number, pathLoss: number): number =>
  Math.round(10 ** ((measuredPower - rssi) / (10 * pathLoss)) * 100) / 100

interface IbeaconFilter {
  /** 32 hex digits, lower case */
  uuid: string
  major?: number | undefined
  minor?: number | undefined
}

export class IbeaconDecoder implements Decoder {
  constructor(
    readonly filter: IbeaconFilter,
    readonly pathLoss: number,
  ) {}

  decode(data: Uint8Array, _address: string, rssi: number | null, _now: number, emit: Emit): Verdict {
    const beacon = parseIbeacon(data)
    const { uuid, major = beacon?.major, minor = beacon?.minor } = this.filter
    if (!beacon || beacon.uuid !== uuid || beacon.major !== major || beacon.minor !== minor) return null
    emit('measured_power', beacon.measuredPower)
    emit('major', beacon.major)
    emit('minor', beacon.minor)
    emit('distance', rssi === null ? null : distance(beacon.measuredPower, rssi, this.pathLoss))
    return ''
  }
}

export const IBEACON_CHANNELS = [
  { key: 'distance', unit: 'm' },
  { key: 'measured_power', unit: 'dBm' },
  { key: 'major', unit: '1' },
  { key: 'minor', unit: '1' },
] as const
