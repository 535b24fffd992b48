// RuuviTag and Ruuvi Air (manufacturer data of company 0x0499, docs.ruuvi.com): data formats 3 (RAWv1), 5 (RAWv2), 6
// and E1, all big-endian. Errors: a value that the device marks as not available (null), another format, a truncated
// payload.
import { manufacturerData } from './ad'
import type { Decoder, Emit, Verdict } from './codec'

const RUUVI = 0x0499

type Format = (bytes: Buffer, emit: Emit) => void

/** The largest number, or the smallest signed one, means not available. */
const u8 = (value: number): number | null => (value === 0xff ? null : value)
const u16 = (value: number): number | null => (value === 0xffff ? null : value)
const s16 = (value: number): number | null => (value === -0x8000 ? null : value)
const u24 = (value: number): number | null => (value === 0xffffff ? null : value)
/** `null` stays null */
const over = (value: number | null, divide: number): number | null => (value === null ? null : value / divide)

const rawV1: Format = (bytes, emit) => {
  const whole = bytes[2]! & 0x7f
  const sign = bytes[2]! & 0x80 ? -1 : 1
  emit('humidity', bytes[1]! / 2)
  emit('temperature', (sign * (whole * 100 + bytes[3]!)) / 100)
  emit('pressure', bytes.readUInt16BE(4) + 50_000)
  emit('acceleration_x', over(bytes.readInt16BE(6), 1000))
  emit('acceleration_y', over(bytes.readInt16BE(8), 1000))
  emit('acceleration_z', over(bytes.readInt16BE(10), 1000))
  emit('battery', bytes.readUInt16BE(12) / 1000)
}

/** Temperature, humidity and pressure are at the same offsets in formats 5, 6 and E1. */
const climate: Format = (bytes, emit) => {
  const pressure = u16(bytes.readUInt16BE(5))
  emit('temperature', over(s16(bytes.readInt16BE(1)), 200))
  emit('humidity', over(u16(bytes.readUInt16BE(3)), 400))
  emit('pressure', pressure === null ? null : pressure + 50_000)
}

const rawV2: Format = (bytes, emit) => {
  climate(bytes, emit)
  emit('acceleration_x', over(s16(bytes.readInt16BE(7)), 1000))
  emit('acceleration_y', over(s16(bytes.readInt16BE(9)), 1000))
  emit('acceleration_z', over(s16(bytes.readInt16BE(11)), 1000))
  const power = bytes.readUInt16BE(13)
  const millivolts = power >> 5
  const tx = power & 0x1f
  emit('battery', millivolts === 0x7ff ? null : (millivolts + 1600) / 1000)
  emit('tx_power', tx === 0x1f ? null : tx * 2 - 40)
  emit('movements', u8(bytes[15]!))
  emit('sequence', u16(bytes.readUInt16BE(16)))
}

/** Nine bits: eight in a byte, the lowest one in the flags; all set: not available. */
const index = (high: number, low: number): number | null => {
  const value = (high << 1) | low
  return value === 0x1ff ? null : value
}

/**
 * The light of format 6 is one byte on a logarithmic scale: 254 is 65535 lx. Rounded to hundredths, which is finer than
 * the scale.
 */
const lux = (code: number | null): number | null =>
  code === null ? null : Math.round(Math.expm1((code * Math.log(65_536)) / 254) * 100) / 100

const air: Format = (bytes, emit) => {
  const flags = bytes[16]!
  climate(bytes, emit)
  emit('pm2_5', over(u16(bytes.readUInt16BE(7)), 10))
  emit('co2', u16(bytes.readUInt16BE(9)))
  emit('voc', index(bytes[11]!, (flags >> 6) & 1))
  emit('nox', index(bytes[12]!, flags >> 7))
  emit('illuminance', lux(u8(bytes[13]!)))
  emit('sequence', bytes[15]!)
}

const airExtended: Format = (bytes, emit) => {
  const flags = bytes[28]!
  climate(bytes, emit)
  emit('pm1', over(u16(bytes.readUInt16BE(7)), 10))
  emit('pm2_5', over(u16(bytes.readUInt16BE(9)), 10))
  emit('pm4', over(u16(bytes.readUInt16BE(11)), 10))
  emit('pm10', over(u16(bytes.readUInt16BE(13)), 10))
  emit('co2', u16(bytes.readUInt16BE(15)))
  emit('voc', index(bytes[17]!, (flags >> 6) & 1))
  emit('nox', index(bytes[18]!, flags >> 7))
  emit('illuminance', over(u24(bytes.readUIntBE(19, 3)), 100))
  emit('sequence', u24(bytes.readUIntBE(25, 3)))
}

const FORMATS = new Map<number, { bytes: number; format: Format }>([
  [0x03, { bytes: 14, format: rawV1 }],
  // the address at the end of 5, 6 and E1 is not used: the radio reports it
  [0x05, { bytes: 18, format: rawV2 }],
  [0x06, { bytes: 17, format: air }],
  [0xe1, { bytes: 29, format: airExtended }],
])

/** Emits the values of a payload (manufacturer data without the company number). */
export function decodeRuuvi(payload: Uint8Array, emit: Emit): Verdict {
  const known = FORMATS.get(payload[0] ?? -1)
  if (!known) return `data format ${payload[0]} is not known`
  if (payload.length < known.bytes) return `data format ${payload[0]} is cut short`
  known.format(Buffer.from(payload.buffer, payload.byteOffset, payload.length), emit)
  return ''
}

export class RuuviDecoder implements Decoder {
  decode(data: Uint8Array, _address: string, _rssi: number | null, _now: number, emit: Emit): Verdict {
    const payload = manufacturerData(data, RUUVI)
    return payload && decodeRuuvi(payload, emit)
  }
}

const TAG = [
  { key: 'temperature', unit: 'Cel' },
  { key: 'humidity', unit: '%' },
  { key: 'pressure', unit: 'Pa' },
  { key: 'battery', unit: 'V' },
] as const

const MORE = [
  { key: 'acceleration_x', unit: '[g]' },
  { key: 'acceleration_y', unit: '[g]' },
  { key: 'acceleration_z', unit: '[g]' },
  { key: 'tx_power', unit: 'dBm' },
  { key: 'movements', unit: '1' },
  { key: 'sequence', unit: '1' },
  { key: 'pm1', unit: 'ug/m3' },
  { key: 'pm2_5', unit: 'ug/m3' },
  { key: 'pm4', unit: 'ug/m3' },
  { key: 'pm10', unit: 'ug/m3' },
  { key: 'co2', unit: '[ppm]' },
  { key: 'voc', unit: '1' },
  { key: 'nox', unit: '1' },
  { key: 'illuminance', unit: 'lx' },
] as const

export const RUUVI_CHANNELS = [...TAG, ...MORE] as const
/** quantities that every RuuviTag measures: the default when the options name no channels */
export const RUUVI_USUAL: readonly string[] = TAG.map(({ key }) => key)
