// The page's side of the HTTP interface: the forms it reads, and one call. An answer that is no success, or none at all,
// is an ApiError; status 0 means the gateway was not reached.
import type { News } from './format'

export interface Link {
  state: string
  reason?: string
  retry_at?: number
  delivery: string | null
  rx: number
  tx: number
  errors: number
}

export interface Status extends News {
  version: string
  uptime_s: number
  identity: { device_id: string; assigned_id: number | null }
  time: { quality: string; offset_ms: number | null }
  links: Record<string, Link>
  log: Record<'first_seq' | 'last_seq' | 'committed_seq' | 'bytes' | 'lost' | 'bytes_written_today', number>
  uplinks: Record<string, Record<'cursor' | 'backlog' | 'acked' | 'resent', number>>
  storage: { lag_records: number }
  dropped: Record<'rows' | 'packets' | 'records', number>
}

export interface Sensor {
  id: string
  status: string
  unit: string
  value: number | null
}

export interface Readings {
  device_id: string
  t_raw: number
  sensors: readonly Sensor[]
  medium: string
  source_aid: number
}

export interface Dashboard {
  status: Status
  latest: readonly Readings[]
  timestamp: number
}

export interface Packet {
  packet_uuid: string
  device_id: string
  device_status: string
  timestamp_raw: number
  payload_json: Record<string, unknown>
}

export interface Packets {
  packets: readonly Packet[]
  total: number
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message)
  }
}

/** What went wrong, and why where the gateway knows it. */
const told = ({ error, reason }: { error?: string; reason?: unknown }, status: number): string =>
  [error ?? `HTTP ${status}`, ...(typeof reason === 'string' && reason !== '' ? [reason] : [])].join(': ')

const TIMEOUT_MS = 8_000

/** GET one path; resolves with the body of a success. */
export async function get<T>(path: string, token: string | null): Promise<T> {
  const abort = new AbortController()
  const timer = setTimeout(() => abort.abort(), TIMEOUT_MS)
  try {
    const answer = await fetch(path, {
      headers: token ? { 'X-Admin-Token': token } : {},
      cache: 'no-store',
      signal: abort.signal,
    })
    const body = (await answer.json()) as { ok?: boolean; error?: string; code?: string; reason?: unknown }
    if (answer.ok && body.ok !== false) return body as T
    throw new ApiError(answer.status, body.code ?? '', told(body, answer.status))
  } catch (thrown) {
    if (thrown instanceof ApiError) throw thrown
    throw new ApiError(0, 'UNREACHABLE', 'gateway not reachable')
  } finally {
    clearTimeout(timer)
  }
}
