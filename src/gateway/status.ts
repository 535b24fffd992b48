// What `os-node status --json` prints and every face shows, letter for letter. Scripts read it: keys are added, never
// renamed.

import type { LinkReport } from '../links/supervisor'
import type { LogStatus } from '../log'
import type { DeviceRole } from '../protocol/handshake/roles'
import type { LeaseMetrics } from '../protocol/ids/lease'
import type { QuotaReport } from '../protocol/ids/quota'
import type { DatabaseStatus } from '../storage'
import type { FlashReport } from './guard/flash'
import type { GuardReport } from './guard/guard'
import type { SessionsReport } from './receive/receiver-session'
import type { TimeReport } from './time/clock-watch'

export type { LogStatus }

export interface LinkStatus extends LinkReport {
  /** uplinks: how what they send is confirmed; null: this link delivers nothing */
  delivery: UplinkReport['delivery'] | null
}

export interface SecureReport {
  /** 'pending': data of some AID goes in plaintext or, with require_secure, waits; 'none': nothing was sent yet */
  secure: 'none' | 'pending' | 'secure'
  /** AIDs that send here, with and without a key */
  secure_aids: { pending: number; secure: number }
}

export interface UplinkReport extends SecureReport {
  /** it gets the records; the others of the list wait */
  carrying: boolean
  /** the upstream has everything of the log up to here */
  cursor: number
  /** facts it does not have yet */
  backlog: number
  /** packets the upstream, or a broker, confirmed */
  acked: number
  /** packets handed to the medium best effort: no answer says that they arrived */
  sent: number
  resent: number
  /** facts that cannot be sent over this uplink; they stay in the log */
  refused: number
  delivery: 'acked' | 'best_effort' | 'probing' | 'silent'
  in_flight: number
  round_trip_ms: number
  /** packets given up when they were to go again, their record or their key being gone */
  abandoned: number
  /** answers that fit nothing sent and no open request */
  stray_answers: number
  /** key announcements, channel acknowledgements and refusals of a key that were not obeyed */
  ignored: { ready: number; channel_ack: number; bad_key: number }
}

/** Who carries upstream (D6). */
export interface ForwardingReport {
  /** null: none could yet */
  uplink: string | null
  /** UNIX ms: since when it carries */
  since: number
  /** why it is not the first of the list */
  reason?: string
  cursor: number
  backlog: number
  /** facts whose time no source confirmed wait for a sync, so many seconds at most (D18) */
  held_s?: number
  /** of the backlog: facts too large for the uplinks that carried since; they wait for a larger one */
  aside?: number
}

/** The ids this gateway hands out: of a range of its own, of a pool its upstream gave it, or of a database that receivers share. */
export interface IdsReport extends Partial<QuotaReport> {
  source: 'range' | 'pool' | 'postgresql'
  allocated?: number
  /** free again; of a pool: ids left */
  released?: number
  /** of a range: the next id that was never used */
  next_candidate?: number
  /** memory of the ids in use */
  bytes?: number
  /** new devices refused since the start because id_max_bytes is full */
  refused?: number
  /** checkpoints that could not be written; nothing is lost, the journal stays long. Absent: none */
  checkpoint_failures?: number
  /** lease metrics that could not be written; absent: none */
  metrics_failures?: number
  lease_metrics?: LeaseMetrics
  /** why none are handed out */
  problem?: string
}

/** The disk of the data directory cannot be written (R30). */
export interface DiskReport {
  readonly state: 'degraded'
  readonly reason: string
  /** UNIX ms */
  readonly since: number
  /** what is in RAM only and is written once that is possible; the log's records are counted in log.pending */
  readonly in_ram: readonly string[]
  /** what to do */
  readonly hint: string
}

/** A sensor whose newest reading is an ERROR or an alarm; `sensor_id` is absent where the state of the device is one. */
export interface Attention {
  readonly device_id: string
  readonly sensor_id?: string
  readonly status: string
  /** why a sensor of this gateway has no value, or the value that is the alarm; absent: another device did not say */
  readonly reason?: string
  /** UNIX ms of the reading */
  readonly at: number
}

export interface GatewayStatus {
  version: string
  /** 'none': read from the files, no gateway runs */
  role: 'run' | 'serve' | 'none'
  uptime_s: number
  identity: { device_id: string; assigned_id: number }
  /** rx_only: no uplink is opened; readings stay in the log */
  device_role: DeviceRole
  time: TimeReport
  links: Record<string, LinkStatus>
  log: LogStatus
  uplinks: Record<string, UplinkReport>
  /** absent: read from the files, or nothing is sent upstream */
  forwarding?: ForwardingReport
  storage: DatabaseStatus
  /** absent: read from the files, or the kernel does not count what is written to the data directory */
  flash?: FlashReport
  /** absent: everything is kept */
  disk?: DiskReport
  /** events: those that listeners were too slow for; absent: none */
  dropped: { rows: number; packets: number; records: number; events?: number }
  intake: { readings: number; facts: number; rejected_rows: number; refused_groups: number; unchanged: number }
  received: Record<string, number>
  /** AIDs heard from several addresses: a device that moved, or two with one AID */
  shared_ids?: readonly { readonly aid: number; readonly addresses: readonly string[] }[]
  /** absent: read from the files */
  sessions?: SessionsReport
  /** absent: nothing of the newest readings is an ERROR or an alarm */
  attention?: readonly Attention[]
  /** absent: this gateway hands out no ids */
  ids?: IdsReport
  /** why the configuration file does not count, when it does not */
  config_problem?: string
  /** files of token and users that cannot be read, with what to do; by the command `status` */
  login_problems?: string[]
  /** keys whose new value counts from the next start on */
  needs_restart?: readonly string[]
  /** why links and SQL view stay off: safe mode (R25) */
  safe_mode?: string
  /** absent: read from the files */
  guard?: GuardReport
}
