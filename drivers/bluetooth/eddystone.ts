// Eddystone (service data of UUID 0xFEAA): plain telemetry, frame 0x20 version 0, big-endian. The UID and URL frames of
// the same device only show that it is present. Errors: encrypted telemetry (version 1), which only the device's owner
// can decrypt.
import { serviceData } from './ad'
import type { Decoder, Emit, Verdict } from './codec'

const SERVICE = 0xfeaa
const TLM = 0x20
const UID = 0x00
const URL = 0x10
const EID = 0x30
const TLM_BYTES = 14
const NO_TEMPERATURE = -0x8000

export class EddystoneDecoder implements Decoder {
  decode(data: Uint8Array, _address: string, _rssi: number | null, _now: number, emit: Emit): Verdict {
    const body = serviceData(data, SERVICE)
    const frame = body?.[0]
    if (!body || frame === undefined) return null
    if (frame === UID || frame === URL || frame === EID) return ''
    if (frame !== TLM) return `frame 0x${frame.toString(16)} is not known`
    if (body[1] !== 0) return 'its telemetry is encrypted'
    if (body.length < TLM_BYTES) return 'its telemetry is cut short'
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
    const millivolts = bytes.readUInt16BE(2)
    const temperature = bytes.readInt16BE(4)
    // 0 and -128 mean: not measured by this device
    emit('battery', millivolts === 0 ? null : millivolts)
    emit('temperature', temperature === NO_TEMPERATURE ? null : temperature / 256)
    emit('advertisements', bytes.readUInt32BE(6))
    emit('uptime', bytes.readUInt32BE(10) / 10)
    return ''
  }
}

export const EDDYSTONE_CHANNELS = [
  { key: 'battery', unit: 'mV' },
  { key: 'temperature', unit: 'Cel' },
  { key: 'advertisements', unit: '1' },
  { key: 'uptime', unit: 's' },
] as const
