// The sources of everything.long.test.ts: their options, their first sensors, and their states when they are unplugged.
import { CAN, DBC, type Field } from './field'

export const SLAVE = 1502
/** a tenth of the intervals these sources have by default, or less */
const interval_ms = 100

/** One source for each bus. */
export function sourcesOf(field: Field): object[] {
  return [
    {
      name: 'shed',
      type: 'gpio',
      interval_ms,
      min_gap_ms: 0,
      pins: [
        { chip: 'shed-pins', line: 0, name: 'pulses', mode: 'counter' },
        { chip: 'shed-pins', line: 1, name: 'door', mode: 'edge' },
      ],
    },
    { name: 'chip', type: 'ds3231', bus: field.i2cPath, interval_ms },
    { name: 'engine', type: 'can', interface: CAN, dbc: DBC, interval_ms },
    {
      name: 'meter',
      type: 'modbus_rtu',
      port: field.meterPort,
      baudrate: 115_200,
      slave: 3,
      interval_ms,
      registers: [{ id: 'energy', address: 0, type: 'u32' }],
    },
    {
      name: 'plc',
      type: 'modbus_tcp',
      host: '127.0.0.1',
      port: SLAVE,
      interval_ms,
      registers: [1, 2, 50].map(address => ({ id: `h${address}`, address })),
    },
    {
      name: 'beacon',
      type: 'bthome',
      address: '00:aa:01:01:00:01',
      interval_ms,
      max_age_ms: 5000,
      channels: { count: {} },
    },
  ]
}

/** The state of a link whose plug was pulled, and of one that is up before its devices send again. */
export const TOLD: Record<string, RegExp> = {
  engine: /vcan0|no sensor answers|of \d+ sensors?:/,
  bus: /vcan0/,
  meter: /unplugged|no serial port|no sensor answers|of \d+ sensors?:/,
  wire: /unplugged|no serial port/,
  shed: /gpiochip|no GPIO chip/,
  beacon: /adapter|hci0|no sensor answers|of \d+ sensors?:/,
}

/** The first sensor of each source: identifies the source of a fact. */
export const SOURCES = {
  shed: 'pulses',
  chip: 'chip',
  engine: 'Count',
  meter: 'energy',
  plc: 'h1',
  beacon: 'beacon_count',
}

export interface Link {
  state: string
  reason?: string
  opens: number
  reads?: number
  dropped?: number
  last_error?: string
  detail?: Record<string, number>
}
