// The JSON shapes of the data queries (specification, "Data query endpoints"), and their parameters as a database takes
// them: limits clamped to 1..500, offsets to 0 and up.
import { OsError } from '../lib/errors'
import type { FactDict } from '../pipeline/fact'

export interface DeviceSummary {
  device_id: string
  last_seen: number
  packet_count: number
}

export interface PacketRecord {
  packet_uuid: string
  device_id: string
  device_status: string
  /** whole UNIX seconds; the milliseconds stay in payload_json.t_raw */
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

export interface DeviceList {
  ok: true
  devices: DeviceSummary[]
  total: number
  limit: number
  offset: number
}

export interface PacketList {
  ok: true
  packets: PacketRecord[]
  total: number
  limit: number
  offset: number
}

export interface PacketDetail {
  ok: true
  packet: PacketRecord
  sensors: PacketSensor[]
}

export interface SensorList {
  ok: true
  sensors: SensorRecord[]
  total: number
  limit: number
  offset: number
}

export interface PacketQuery {
  device_id?: string | null
  status?: string | null
  /** whole UNIX seconds, both bounds included */
  since?: number | null
  until?: number | null
  limit?: number
  offset?: number
}

export interface SensorQuery {
  device_id?: string | null
  sensor_id?: string | null
  since?: number | null
  until?: number | null
  limit?: number
  offset?: number
}

export const clampLimit = (limit: number | undefined, fallback: number): number =>
  Math.min(500, Math.max(1, whole('limit', limit ?? fallback)))

export const clampOffset = (offset: number | undefined): number =>
  Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, whole('offset', offset ?? 0)))

/** A number without its fraction; throws BAD_REQUEST for anything else. */
export function whole(name: string, value: unknown): number {
  if (typeof value !== 'number' || Number.isNaN(value)) throw new OsError('BAD_REQUEST', `${name} must be an integer`)
  return Math.trunc(value)
}
