// What `os-node status --json`, the page and the API say about a gateway. One shape for a running gateway and for the files
// of one that is not running (then uptime is 0 and there are no links).
import type { LinkState } from '../links/contracts'

export interface LinkStatus {
  state: LinkState['state']
  reason?: string
  /** UNIX milliseconds */
  retry_at?: number
  delivery: 'acked' | 'best_effort'
  rx: number
  tx: number
  errors: number
}

export interface UplinkStatus {
  /** the newest log sequence number this uplink is done with */
  cursor: number
  /** records still to be sent */
  backlog: number
  acked: number
  resent: number
}

export interface LogStatus {
  first_seq: number
  last_seq: number
  committed_seq: number
  bytes: number
  lost: number
  bytes_written_today: number
}

export interface GatewayStatus {
  version: string
  uptime_s: number
  identity: { device_id: string; assigned_id: number }
  time: { quality: string; offset_ms: number }
  links: Record<string, LinkStatus>
  log: LogStatus
  uplinks: Record<string, UplinkStatus>
  storage: { lag_records: number }
  dropped: { rows: number; packets: number; records: number }
}
