// The JSON shapes of the data queries (specification, "Data query endpoints"), and their parameters as a database uses them:
// limits clamped to 1..500, offsets to 0 and up.
import { OsError } from '../lib/errors'
import { type Fact, type FactDict, factToDict } from '../pipeline/fact'

export interface DeviceSummary {
  device_id: string
  last_seen: number
  packet_count: number
}

export interface PacketRecord {
  packet_uuid: string
  device_id: string
  device_status: string
  /** integer UNIX seconds; the milliseconds are in payload_json.t_raw */
  timestamp_raw: number
  payload_json: FactDict
  created_at: number
}

export interface PacketSensor {
  sensor_index: number
  sensor_id: string
  sensor_status: string
  normalized_value: number | null
  normalized_unit: string | null
}

export interface SensorRecord extends PacketSensor {
  packet_uuid: string
  device_id: string
  timestamp_raw: number
}

interface Page {
  ok: true
  total: number
  limit: number
  offset: number
}

export interface DeviceList extends Page {
  devices: DeviceSummary[]
}

export interface PacketList extends Page {
  packets: PacketRecord[]
}

export interface PacketDetail {
  ok: true
  packet: PacketRecord
  sensors: PacketSensor[]
}

export interface SensorList extends Page {
  sensors: SensorRecord[]
}

/** min, mean and max are null if the bucket contains no value */
export interface HistoryBucket {
  /** its first integer UNIX second */
  t: number
  count: number
  min: number | null
  mean: number | null
  max: number | null
}

export interface HistoryList {
  ok: true
  buckets: HistoryBucket[]
  since: number
  until: number
  /** units of the values: several if the sensor's unit changed in the range */
  units: string[]
}

export interface HistoryQuery {
  device_id: string
  sensor_id: string
  /** integer UNIX seconds, both bounds inclusive; default: from the first to the last value */
  since?: number | null
  until?: number | null
  /** 1..1000, clamped */
  buckets?: number
}

interface RangeQuery {
  device_id?: string | null
  /** integer UNIX seconds, both bounds inclusive */
  since?: number | null
  until?: number | null
  limit?: number
  offset?: number
}

export interface PacketQuery extends RangeQuery {
  status?: string | null
}

export interface SensorQuery extends RangeQuery {
  sensor_id?: string | null
}

/** The fact of a stored packet. */
export const factOf = (
  id: string,
  state: string,
  tRaw: number,
  extras: unknown,
  sensors: readonly PacketSensor[],
): Fact => ({
  ...{ id, state, tRaw, aid: 0 },
  sensors: sensors.map(s => ({
    ...{ id: s.sensor_id, status: s.sensor_status, unit: s.normalized_unit ?? '', value: s.normalized_value },
  })),
  ...(typeof extras === 'string' && { extras: JSON.parse(extras) as Record<string, string> }),
})

/** payload_json is created here, on read (decision 0012). */
export const recordOf = (fact: Fact, uuid: string, timestamp: number, created: number): PacketRecord => ({
  packet_uuid: uuid,
  device_id: fact.id,
  device_status: fact.state,
  timestamp_raw: timestamp,
  payload_json: factToDict(fact),
  created_at: created,
})

export const clampLimit = (limit: number | undefined, fallback: number): number =>
  Math.min(500, Math.max(1, whole('limit', limit ?? fallback)))

export const MAX_BUCKETS = 1000
const BUCKETS = 200

export const clampBuckets = (buckets: number | undefined): number =>
  Math.min(MAX_BUCKETS, Math.max(1, whole('buckets', buckets ?? BUCKETS)))

export const clampOffset = (offset: number | undefined): number =>
  Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, whole('offset', offset ?? 0)))

/** A non-empty text; throws BAD_REQUEST for anything else. */
export function needed(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '') throw new OsError('BAD_REQUEST', `${name} is required`)
  return value
}

/** A number without its fraction; throws BAD_REQUEST for anything else. */
export function whole(name: string, value: unknown): number {
  if (typeof value !== 'number' || Number.isNaN(value)) throw new OsError('BAD_REQUEST', `${name} must be an integer`)
  return Math.trunc(value)
}

/** Throws BAD_REQUEST before a query is sent to the worker. */
export function checkQuery({ since, until, limit, offset, buckets }: PacketQuery & { buckets?: number }): void {
  if (since !== undefined && since !== null) whole('since', since)
  if (until !== undefined && until !== null) whole('until', until)
  clampLimit(limit, 50)
  clampOffset(offset)
  clampBuckets(buckets)
}
