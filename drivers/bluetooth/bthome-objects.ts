// The objects of BTHome v2 (bthome.io/format): the meaning of each id. Data only. Several ids are the same quantity in
// different sizes; they share one name. Units are UCUM (dBm and similar are spellings that os-node knows).

interface ObjectType {
  readonly key: string
  readonly bytes: 1 | 2 | 3 | 4
  readonly signed: boolean
  /** value = raw × multiply / divide, for exact decimals: 2506 / 100 is 25.06, but 2506 × 0.01 is not */
  readonly multiply: number
  readonly divide: number
  readonly unit: string
  readonly kind: 'number' | 'binary' | 'event'
}

const OBJECTS = new Map<number, ObjectType>()

function number(
  id: number,
  key: string,
  bytes: 1 | 2 | 3 | 4,
  unit: string,
  divide = 1,
  signed = false,
  multiply = 1,
): void {
  OBJECTS.set(id, { key, bytes, signed, multiply, divide, unit, kind: 'number' })
}
const SIGNED = true

number(0x01, 'battery', 1, '%')
number(0x02, 'temperature', 2, 'Cel', 100, SIGNED)
number(0x03, 'humidity', 2, '%', 100)
number(0x04, 'pressure', 3, 'hPa', 100)
number(0x05, 'illuminance', 3, 'lx', 100)
number(0x06, 'mass', 2, 'kg', 100)
number(0x07, 'mass_lb', 2, '[lb_av]', 100)
number(0x08, 'dewpoint', 2, 'Cel', 100, SIGNED)
number(0x09, 'count', 1, '1')
number(0x0a, 'energy', 3, 'kW.h', 1000)
number(0x0b, 'power', 3, 'W', 100)
number(0x0c, 'voltage', 2, 'V', 1000)
number(0x0d, 'pm2_5', 2, 'ug/m3')
number(0x0e, 'pm10', 2, 'ug/m3')
number(0x12, 'co2', 2, '[ppm]')
number(0x13, 'tvoc', 2, 'ug/m3')
number(0x14, 'moisture', 2, '%', 100)
number(0x2e, 'humidity', 1, '%')
number(0x2f, 'moisture', 1, '%')
number(0x3d, 'count', 2, '1')
number(0x3e, 'count', 4, '1')
number(0x3f, 'rotation', 2, 'deg', 10, SIGNED)
number(0x40, 'distance_mm', 2, 'mm')
number(0x41, 'distance', 2, 'm', 10)
number(0x42, 'duration', 3, 's', 1000)
number(0x43, 'current', 2, 'A', 1000)
number(0x44, 'speed', 2, 'm/s', 100)
number(0x45, 'temperature', 2, 'Cel', 10, SIGNED)
number(0x46, 'uv_index', 1, '1', 10)
number(0x47, 'volume', 2, 'L', 10)
number(0x48, 'volume_ml', 2, 'mL')
number(0x49, 'volume_flow_rate', 2, 'm3/h', 1000)
number(0x4a, 'voltage', 2, 'V', 10)
number(0x4b, 'gas', 3, 'm3', 1000)
number(0x4c, 'gas', 4, 'm3', 1000)
number(0x4d, 'energy', 4, 'kW.h', 1000)
number(0x4e, 'volume', 4, 'L', 1000)
number(0x4f, 'water', 4, 'L', 1000)
number(0x50, 'timestamp', 4, 's')
number(0x51, 'acceleration', 2, 'm/s2', 1000)
number(0x52, 'gyroscope', 2, 'deg/s', 1000)
number(0x55, 'volume_storage', 4, 'L', 1000)
number(0x56, 'conductivity', 2, 'uS/cm')
number(0x57, 'temperature', 1, 'Cel', 1, SIGNED)
number(0x58, 'temperature', 1, 'Cel', 100, SIGNED, 35)
number(0x59, 'count', 1, '1', 1, SIGNED)
number(0x5a, 'count', 2, '1', 1, SIGNED)
number(0x5b, 'count', 4, '1', 1, SIGNED)
number(0x5c, 'power', 4, 'W', 100, SIGNED)
number(0x5d, 'current', 2, 'A', 1000, SIGNED)
number(0x5e, 'direction', 2, 'deg', 100)
number(0x5f, 'precipitation', 2, 'mm', 10)
number(0x60, 'channel', 1, '1')
number(0x61, 'rotational_speed', 2, '/min')
number(0x62, 'speed', 4, 'm/s', 1_000_000, SIGNED)
number(0x63, 'acceleration', 4, 'm/s2', 1_000_000, SIGNED)
number(0x64, 'light_level', 1, '1')

/** Values 0 and 1: the format's table has their meaning; a status rule names them. */
const BINARY: readonly (readonly [id: number, key: string])[] = [
  [0x0f, 'generic'],
  [0x10, 'power_on'],
  [0x11, 'opening'],
  [0x15, 'battery_low'],
  [0x16, 'battery_charging'],
  [0x17, 'carbon_monoxide'],
  [0x18, 'cold'],
  [0x19, 'connectivity'],
  [0x1a, 'door'],
  [0x1b, 'garage_door'],
  [0x1c, 'gas_detected'],
  [0x1d, 'heat'],
  [0x1e, 'light'],
  [0x1f, 'lock'],
  [0x20, 'moisture_detected'],
  [0x21, 'motion'],
  [0x22, 'moving'],
  [0x23, 'occupancy'],
  [0x24, 'plug'],
  [0x25, 'home'],
  [0x26, 'problem'],
  [0x27, 'running'],
  [0x28, 'safety'],
  [0x29, 'smoke'],
  [0x2a, 'sound'],
  [0x2b, 'tamper'],
  [0x2c, 'vibration'],
  [0x2d, 'window'],
]
for (const [id, key] of BINARY)
  OBJECTS.set(id, { key, bytes: 1, signed: false, multiply: 1, divide: 1, unit: '1', kind: 'binary' })

export const PACKET_ID = 0x00
export const BUTTON = 0x3a
export const DIMMER = 0x3c
const event = (id: number, key: string, bytes: 1 | 2): void => {
  OBJECTS.set(id, { key, bytes, signed: false, multiply: 1, divide: 1, unit: '1', kind: 'event' })
}
event(BUTTON, 'button', 1)
event(DIMMER, 'dimmer', 2)

/** Objects without a measurement: id → number of bytes that follow. */
export const SKIPPED = new Map([
  [0xf0, 2], // device type
  [0xf1, 4], // firmware version
  [0xf2, 3],
])
/** text and raw: the byte after the id is the length */
export const VARIABLE = new Set([0x53, 0x54])

/** The meaning of an id; undefined: not in this table. */
export const objectType = (id: number): ObjectType | undefined => OBJECTS.get(id)

/** Units of channels by name; a second object of the same name in a packet is `name_2`, and so on. */
const CHANNEL_UNITS = new Map<string, string>()
for (const { key, unit } of OBJECTS.values()) CHANNEL_UNITS.set(key, unit)
CHANNEL_UNITS.set('button_count', '1')
CHANNEL_UNITS.set('dimmer_count', '1')

const NUMBERED = /_[2-9]$/

/** The unit of a channel named in the configuration, `temperature_2` included; undefined: no such channel. */
export const channelUnit = (key: string): string | undefined =>
  CHANNEL_UNITS.get(key) ?? CHANNEL_UNITS.get(key.replace(NUMBERED, ''))

export const bthomeKeys = (): string[] => [...CHANNEL_UNITS.keys()]
