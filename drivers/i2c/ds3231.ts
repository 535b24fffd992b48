// Temperature of a DS3231 clock (Maxim 19-5170): signed quarter degrees in registers 0x11 and 0x12, updated by the chip
// every 64 seconds. Read-only: the kernel handles the time (and with the kernel's driver on the address, hwmon has this
// value).
import { type ChipIo, hex, type I2cChip, wrongChip } from './device'

export const DS3231_CHANNELS = [{ key: 'temperature', unit: 'Cel' }]

export const ds3231Celsius = (high: number, low: number): number => (((high << 8) | low) << 16) / 65536 / 256

export class Ds3231 implements I2cChip {
  async setUp(io: ChipIo): Promise<void> {
    // the chip has no id; the low six bits of the fraction and four bits of the status are always 0
    const [status] = await io.read(0x0f, 1)
    const [, low] = await io.read(0x11, 2)
    if ((low! & 0x3f) !== 0 || (status! & 0x70) !== 0) throw wrongChip('DS3231', 'registers 0x0f and 0x12 do not fit')
  }

  async sample(io: ChipIo) {
    const bytes = await io.read(0x11, 2)
    return [{ raw: hex(bytes), value: ds3231Celsius(bytes[0]!, bytes[1]!) }]
  }
}
