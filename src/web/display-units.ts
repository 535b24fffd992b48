// `units=display` of the API: values and units for people (units/display.ts), in the shapes of canonical answers.
import { exported, exportedDict, UNIT_CHOICES } from '../units/display'
import type { LatestReading } from './context'
import { choice, type QueryValues } from './query'

/** The query parameter; another value is BAD_REQUEST. */
export const units = choice(UNIT_CHOICES, 'canonical')

export const wantsDisplay = (query: QueryValues): boolean => query.units === 'display'

interface SensorRow {
  readonly normalized_value: number | null
  readonly normalized_unit: string | null
}
interface PacketRow {
  readonly payload_json: object
}
type BucketRow = Readonly<Record<'min' | 'mean' | 'max', number | null>>

/** Possible contents of an answer of the data queries. */
interface DataAnswer {
  readonly packet?: PacketRow
  readonly packets?: readonly PacketRow[]
  readonly sensors?: readonly SensorRow[]
  readonly buckets?: readonly BucketRow[]
  readonly units?: readonly string[]
}

const sensorRow = (row: SensorRow): SensorRow => {
  const { value, unit } = exported(row.normalized_value, row.normalized_unit ?? '')
  return { ...row, normalized_value: value, normalized_unit: row.normalized_unit === null ? null : unit }
}

const packetRow = (row: PacketRow): PacketRow => ({ ...row, payload_json: exportedDict(row.payload_json) })

/** A history with several units stays canonical, because its buckets mix them. */
function historyOf(buckets: readonly BucketRow[], [unit, other]: readonly string[]): object {
  if (unit === undefined || other !== undefined) return {}
  const shown = (value: number | null) => exported(value, unit).value
  return {
    buckets: buckets.map(row => ({ ...row, min: shown(row.min), mean: shown(row.mean), max: shown(row.max) })),
    units: [exported(null, unit).unit],
  }
}

/** An answer of GET /api/data/… in display units. */
export function displayedData(answer: DataAnswer): object {
  const { packet, packets, sensors, buckets, units: names = [] } = answer
  return {
    ...answer,
    ...(packet && { packet: packetRow(packet) }),
    ...(packets && { packets: packets.map(packetRow) }),
    ...(sensors && { sensors: sensors.map(sensorRow) }),
    ...(buckets && historyOf(buckets, names)),
  }
}

/** The newest readings of a device in display units. */
export const displayedReading = (reading: LatestReading): LatestReading => ({
  ...reading,
  sensors: reading.sensors.map(sensor => ({ ...sensor, ...exported(sensor.value, sensor.unit) })),
})
