// The keys of `os-node status --json`, which every client shows unchanged. Scripts depend on them: keys are added, never
// renamed.

import type { CoreReport } from '../cores'
import type { LinkReport } from '../links/supervisor'
import type { LogStatus } from '../log'
import type { DeviceRole } from '../protocol/handshake/roles'
import type { LeaseMetrics } from '../protocol/ids/lease'
import type { QuotaReport } from '../protocol/ids/quota'
import type { DatabaseStatus } from '../storage'
import type { FlashReport } from './guard/flash'
import type { GuardReport } from './guard/guard'
import type { SessionsReport } from './receive/receiver-session'
import type { TimeReport } from './time/time-sources'

export type { LogStatus }

export interface LinkStatus extends LinkReport {
  /** uplinks: how sent packets are confirmed; null: this link delivers nothing */
  delivery: UplinkReport['delivery'] | null
}

export interface SecureReport {
  /** 'pending': data of at least one AID is sent as plaintext or, with require_secure, waits; 'none': nothing was sent yet */
  secure: 'none' | 'pending' | 'secure'
  /** AIDs that send through this link, with and without a key */
  secure_aids: { pending: number; secure: number }
}

export interface UplinkReport extends SecureReport {
  /** the active uplink gets the records; the others of the list wait */
  carrying: boolean
  /** the upstream has every log record before this one */
  cursor: number
  /** facts the upstream does not have yet */
  backlog: number
  /** packets confirmed by the upstream or a broker */
  acked: number
  /** packets passed to the medium without confirmation: arrival is unknown */
  sent: number
  resent: number
  /** facts that cannot be sent over this uplink; they stay in the log */
  refused: number
  delivery: 'acked' | 'best_effort' | 'probing' | 'silent'
  in_flight: number
  round_trip_ms: number
  /** packets dropped before a retransmit because their record or key no longer exists */
  abandoned: number
  /** answers that match no sent packet and no open request */
  stray_answers: number
  /** ignored key announcements, channel acknowledgements and key refusals */
  ignored: { ready: number; channel_ack: number; bad_key: number }
}

/** The active uplink (decision 0019). */
export interface ForwardingReport {
  /** null: none could send yet */
  uplink: string | null
  /** UNIX ms since when this uplink is active */
  since: number
  /** why it is not the first of the list */
  reason?: string
  cursor: number
  backlog: number
  /** facts with an unconfirmed time wait for a time sync, at most this many seconds (decision 0044) */
  held_s?: number
  /** part of the backlog: facts too large for the uplinks active since; they wait for an uplink with larger packets */
  aside?: number
}

/** The ids this gateway assigns: from its own range, from a pool of its upstream, or from a database that receivers share. */
export interface IdsReport extends Partial<QuotaReport> {
  source: 'range' | 'pool' | 'postgresql'
  allocated?: number
  /** released ids; for a pool: ids left */
  released?: number
  /** for a range: the next id that was never used */
  next_candidate?: number
  /** memory of the ids in use */
  bytes?: number
  /** new devices refused since the start because id_max_bytes is used up */
  refused?: number
  /** failed checkpoint writes; no data is lost, but the journal keeps growing. Absent: none */
  checkpoint_failures?: number
  /** failed writes of lease metrics; absent: none */
  metrics_failures?: number
  lease_metrics?: LeaseMetrics
  /** why no ids are assigned */
  problem?: string
}

/** The disk of the data directory cannot be written (R30). */
export interface DiskReport {
  readonly state: 'degraded'
  readonly reason: string
  /** UNIX ms */
  readonly since: number
  /** state that is only in RAM, written as soon as possible; log records are counted in log.pending */
  readonly in_ram: readonly string[]
  /** what to do */
  readonly hint: string
}

/** A sensor whose newest reading is an ERROR or an alarm; `sensor_id` is absent if the device state is. */
export interface Attention {
  readonly device_id: string
  readonly sensor_id?: string
  readonly status: string
  /** why a sensor of this gateway has no value, or the value of the alarm; absent: unknown, for other devices */
  readonly reason?: string
  /** UNIX ms of the reading */
  readonly at: number
}

export interface GatewayStatus {
  version: string
  /** 'none': read from the files, no gateway runs */
  role: 'run' | 'serve' | 'none'
  uptime_s: number
  /** refused: why the upstream assigns no id */
  identity: { device_id: string; assigned_id: number; refused?: string }
  /** rx_only: no uplink is opened; readings stay in the log */
  device_role: DeviceRole
  time: TimeReport
  links: Record<string, LinkStatus>
  log: LogStatus
  uplinks: Record<string, UplinkReport>
  /** absent: read from the files, or nothing is sent upstream */
  forwarding?: ForwardingReport
  storage: DatabaseStatus
  /** absent: read from the files, or the kernel does not count writes to the data directory */
  flash?: FlashReport
  /** absent: everything is stored */
  disk?: DiskReport
  /** events: dropped because listeners were too slow; absent: none */
  dropped: { rows: number; packets: number; records: number; events?: number }
  intake: { readings: number; facts: number; rejected_rows: number; refused_groups: number; unchanged: number }
  received: Record<string, number>
  /** which core makes the packets of uplinks and checks those of receivers; absent: read from the files */
  core?: CoreReport
  /** AIDs received from several addresses: a device that moved, or two devices with one AID */
  shared_ids?: readonly { readonly aid: number; readonly addresses: readonly string[] }[]
  /** absent: read from the files */
  sessions?: SessionsReport
  /** absent: no newest reading is an ERROR or an alarm */
  attention?: readonly Attention[]
  /** absent: this gateway assigns no ids */
  ids?: IdsReport
  /** why the configuration file is not used, if so */
  config_problem?: string
  /** files of token and users that cannot be read, with the remedy; set by the command `status` */
  login_problems?: string[]
  /** keys whose new value takes effect at the next start */
  needs_restart?: readonly string[]
  /** why links and SQL view stay off: safe mode (R25) */
  safe_mode?: string
  /** absent: read from the files */
  guard?: GuardReport
}
