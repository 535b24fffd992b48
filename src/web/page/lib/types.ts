// The data of the HTTP interface, as far as the page reads it.
import type { Role } from '../../../services/users/roles'
import type { News } from '../format'

export type { DeviceSummary as Device, PacketRecord as Packet, SensorRecord } from '../../../storage/shapes'
export type { Role }

export interface LinkInfo {
  kind: string
  type?: string
  state: string
  since?: number
  reason?: string
  hint?: string
  retry_at?: number
  delivery: string | null
  rx: number
  tx: number
  errors: number
  detail?: Record<string, number>
}

export interface UplinkInfo {
  delivery?: string
  carrying?: boolean
  cursor: number
  backlog: number
  acked: number
  /** sent best effort */
  sent?: number
  resent: number
  refused?: number
  secure?: string
  round_trip_ms?: number
}

export interface Status extends News {
  version: string
  role: string
  uptime_s: number
  identity: { device_id: string; assigned_id: number | null; refused?: string }
  device_role?: string
  time: {
    quality: string
    offset_ms: number | null
    source?: string
    last_sync?: number
    jumps?: number
    ntp?: { state: string; max_error_us?: number }
  }
  links: Record<string, LinkInfo>
  log: Record<
    'first_seq' | 'last_seq' | 'committed_seq' | 'bytes' | 'max_bytes' | 'lost' | 'bytes_written_today',
    number
  > & {
    state?: string
    oldest?: number | null
    damaged?: number
    check?: { unreadable: readonly string[] }
  }
  flash?: {
    device: string
    bytes_written_today: number
    endurance_bytes: number
    wear_percent_year: number | null
  }
  uplinks: Record<string, UplinkInfo>
  forwarding?: { uplink: string | null; reason?: string; backlog: number; held_s?: number }
  storage: {
    state?: string
    reason?: string
    last_error?: { message: string }
    lag_records: number
    packets?: number
    missed?: number
  }
  dropped: Record<'rows' | 'packets' | 'records', number>
  intake?: { readings: number; facts: number; rejected_rows: number; refused_groups: number }
  received?: Record<string, number>
  guard?: News['guard'] & { rss?: number; limit?: number; lag_p99_ms?: number }
}

export interface SensorValue {
  id: string
  status: string
  unit: string
  value: number | null
}

/** The newest readings of one device over one medium. */
export interface Readings {
  device_id: string
  t_raw: number
  sensors: readonly SensorValue[]
  medium: string
  source_aid: number
}

export interface Dashboard {
  status: Status
  latest: readonly Readings[]
  timestamp: number
  service?: { read_only?: boolean; auth_enabled?: boolean; management_enabled?: boolean; updates?: boolean }
}

export interface MediumState {
  name: string
  layer: string
  enabled: boolean
  driver?: boolean
  config_key?: string
  links?: readonly { name: string; state: string; reason?: string }[]
}

export interface OutputState {
  source: string
  name: string
  value: 0 | 1 | null
  reason?: string
}

export interface Plugin {
  name: string
  summary?: string
  config_prefix: string
  enabled: boolean
  mode: string
  mounted: boolean
  loaded: boolean
  running: boolean
  failures?: number
  /** why it is not running */
  error?: string
}

/** Texts that a search can match. */
export interface OptionPart {
  key: string
  help?: string
  allowed?: string
}

export interface OptionField extends OptionPart {
  label: string
  description: string
  type: string
  value: unknown
  writable: boolean
  choices: readonly unknown[] | null
  /** lists: names and meanings of an element's parts, for the search */
  parts?: readonly OptionPart[]
  restart?: boolean
  min?: number
  max?: number
  secret?: boolean
}

export interface OptionCategory {
  id: string
  title: string
  count: number
  fields: readonly OptionField[]
}

export interface JobInfo {
  ok: boolean
  job_id: string
  status: string
  stdout: string
  stderr: string
  exit_code: number | null
  command?: string
  created_at?: number
  started_at?: number | null
}

export interface User {
  username: string
  role: Role
  enabled: boolean
  created_at?: number
}

export interface LogEntry {
  at: number
  level: string
  scope: string
  text: string
  repeats: number
}

export interface ProviderInfo {
  section_id: string
  section_path: string
  display_name: string
  category: string
  refresh_interval_s?: number
  supported_formats?: readonly string[]
  render_mode?: string
}

/** web_user.ui */
export interface UiConfig {
  ui_theme?: string
  ui_layout?: string
  ui_refresh_seconds?: number
  ui_compact?: boolean
  expose_sections?: readonly string[]
}
