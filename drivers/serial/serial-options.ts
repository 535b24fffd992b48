// Options of a serial port, shared by all drivers that use one in Config.json.
import type { InferOutput } from 'valibot'
import { object } from 'valibot'
import { choice, int, maybeFlag, text } from '../../src/config/fields'

/** Entries for a driver's schema; `baudrate` is the driver's default. */
export const serialEntries = (baudrate: number) => ({
  port: text(
    '',
    'serial port: a path (/dev/serial/by-id/…, /dev/ttyAMA0), a name (ttyUSB0), or usb:VENDOR:PRODUCT[:SERIAL] in hex',
  ),
  baudrate: int(baudrate, 'bits per second', { min: 50, max: 12_000_000 }),
  data_bits: int(8, 'data bits of a character', { min: 5, max: 8 }),
  parity: choice(['none', 'even', 'odd'], 'none', 'parity bit of a character'),
  stop_bits: int(1, 'stop bits of a character', { min: 1, max: 2 }),
  flow: choice(['none', 'rts_cts', 'xon_xoff'], 'none', 'flow control'),
  dtr: maybeFlag('level of DTR while the port is open; left out: as the system sets it (on)'),
  rts: maybeFlag('level of RTS while the port is open; left out: as the system sets it (on)'),
  write_timeout_ms: int(5000, 'queued writes are dropped after this long without a byte sent', {
    min: 100,
    max: 60_000,
  }),
})

/** Used only for its type: a port's settings with every default filled in. */
const serialOptions = object(serialEntries(9600))
export type SerialSettings = InferOutput<typeof serialOptions>

/** Extracts the serial settings from a driver's validated options. */
export const serialSettings = (options: SerialSettings): SerialSettings => ({
  port: options.port,
  baudrate: options.baudrate,
  data_bits: options.data_bits,
  parity: options.parity,
  stop_bits: options.stop_bits,
  flow: options.flow,
  ...(options.dtr !== undefined && { dtr: options.dtr }),
  ...(options.rts !== undefined && { rts: options.rts }),
  write_timeout_ms: options.write_timeout_ms,
})

/** Milliseconds per character on the wire: start bit, data, parity, stop. */
export const characterMs = ({ baudrate, data_bits, parity, stop_bits }: SerialSettings): number =>
  ((1 + data_bits + (parity === 'none' ? 0 : 1) + stop_bits) * 1000) / baudrate
