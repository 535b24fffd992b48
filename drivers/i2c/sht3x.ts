// SHT30, SHT31, SHT35 (temperature, humidity), Sensirion data sheet: single shots without clock stretching, which not
// every Pi adapter supports. Each word has its own CRC-8; a wrong CRC gives no value.
import { crcBits } from '../../src/wire/crc'
import { type ChipIo, hex, type I2cChip, wrongChip } from './device'

export const SHT3X_CHANNELS = [
  { key: 'temperature', unit: 'Cel' },
  { key: 'humidity', unit: '%' },
]

/** command and longest duration of a measurement (tables 4 and 9) */
export const REPEATABILITY = {
  high: [0x24, 0x00, 15.5],
  medium: [0x24, 0x0b, 6.5],
  low: [0x24, 0x16, 4.5],
} as const

export const crcSht = (bytes: Uint8Array): number => crcBits(8, 0x31, 0xff, bytes)
export const sht3xCelsius = (word: number): number => -45 + (175 * word) / 65535
export const sht3xHumidity = (word: number): number => (100 * word) / 65535

/** The word at `at`, followed by its CRC; null if the CRC is wrong. */
export const wordAt = (bytes: Uint8Array, at: number): number | null =>
  crcSht(bytes.subarray(at, at + 2)) === bytes[at + 2] ? (bytes[at]! << 8) | bytes[at + 1]! : null

export class Sht3x implements I2cChip {
  constructor(readonly repeatability: keyof typeof REPEATABILITY) {}

  async setUp(io: ChipIo): Promise<void> {
    await io.write(0x30, 0x93) // break, in case the chip is in periodic mode
    await io.sleep(1)
    await io.write(0xf3, 0x2d)
    if (wordAt(await io.receive(3), 0) === null) throw wrongChip('SHT3x', 'its status register has a wrong CRC')
  }

  async sample(io: ChipIo) {
    const [high, low, ms] = REPEATABILITY[this.repeatability]
    await io.write(high, low)
    await io.sleep(ms)
    const bytes = await io.receive(6)
    return [sampleOf(bytes.subarray(0, 3), sht3xCelsius), sampleOf(bytes.subarray(3), sht3xHumidity)]
  }
}

function sampleOf(bytes: Uint8Array, conversion: (word: number) => number) {
  const word = wordAt(bytes, 0)
  const raw = hex(bytes)
  return word === null ? { raw, value: null, error: 'wrong CRC' } : { raw, value: conversion(word) }
}
