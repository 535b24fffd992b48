// Assembles the status of a running gateway; status.ts documents the keys.
import type { ConfigStore } from '../config'
import type { GatewayCores } from '../cores'
import type { Supervisor } from '../links/supervisor'
import type { FlashLog } from '../log'
import type { DeviceRole } from '../protocol/handshake/roles'
import { type Database, NO_DATABASE } from '../storage'
import { readingText } from '../units/display'
import type { GatewayEvents } from './events'
import type { Guard } from './guard/guard'
import type { Identity } from './identity'
import type { DeviceIds } from './ids'
import type { Intake } from './intake/intake'
import type { Sources } from './intake/sources'
import type { LatestBoard, LatestReading } from './latest'
import type { Receive } from './receive/receive'
import type { Attention, GatewayStatus } from './status'
import type { TimeReport } from './time/time-sources'
import type { Unkept } from './unsaved'
import type { Uplinks } from './uplink/uplinks'

/** The parts of a gateway that its status needs. */
interface StatusParts {
  readonly config: ConfigStore
  readonly database: Database | null
  readonly deviceRole: DeviceRole
  readonly events: GatewayEvents
  readonly guard: Guard
  readonly identity: Identity
  readonly ids: DeviceIds | null
  readonly intake: Intake
  readonly latest: LatestBoard
  readonly log: FlashLog
  readonly receive: Receive
  readonly sources: Sources
  readonly supervisor: Supervisor
  readonly uplinks: Uplinks
}

interface Facts {
  readonly version: string
  readonly role: 'run' | 'serve'
  readonly uptimeS: number
  readonly cores?: GatewayCores
  readonly needsRestart: readonly string[]
  readonly unkept?: Unkept
  readonly time: TimeReport
}

/** maximum number of entries in a status */
const MOST = 50

/** The newest readings that are an ERROR or have an alarm status. */
export function attentionOf(
  latest: readonly LatestReading[],
  alarms: readonly string[],
  whyNot: (sensor: string) => string | undefined = () => undefined,
): Attention[] {
  const bad = new Set(['ERROR', ...alarms.map(status => status.toUpperCase())])
  const isBad = (status: string): boolean => bad.has(status.toUpperCase())
  return latest
    .flatMap(({ device_id, state, t_raw: at, medium, sensors }) => [
      ...(isBad(state) ? [{ device_id, status: state, at }] : []),
      ...sensors
        .filter(({ status }) => isBad(status))
        .map(({ id, status, value, unit }) => {
          const why = value !== null ? readingText(value, unit) : medium === 'local' ? whyNot(id) : undefined
          return { device_id, sensor_id: id, status, ...(why !== undefined && { reason: why }), at }
        }),
    ])
    .slice(0, MOST)
}

export function statusOf(
  of: StatusParts,
  { version, role, uptimeS, needsRestart, time, unkept, cores }: Facts,
): GatewayStatus {
  const log = of.log.status()
  const links = of.supervisor.links()
  const uplinks = of.uplinks.status()
  const refusals = of.sources.refused()
  const attention = attentionOf(of.latest.list(), of.config.config.gateway.alarm_statuses, id => of.sources.whyNot(id))
  const disk = unkept?.report()
  const flash = of.guard.flash()
  const moved = of.receive.addresses.several()
  return {
    version,
    role,
    uptime_s: uptimeS,
    identity: {
      ...{ device_id: of.identity.deviceId, assigned_id: of.identity.assignedId },
      ...(of.identity.refusal !== undefined && { refused: of.identity.refusal }),
    },
    device_role: of.deviceRole,
    time,
    links: Object.fromEntries(
      Object.entries(links).map(([name, link]) => {
        const refused = refusals[name]
        const detail = refused === undefined ? link.detail : { ...link.detail, refused_readings: refused }
        return [name, { ...link, ...(detail && { detail }), delivery: uplinks[name]?.delivery ?? null }]
      }),
    ),
    log,
    uplinks,
    // a server and an rx_only node send nothing upstream: no backlog
    ...(role === 'run' && of.deviceRole !== 'rx_only' && { forwarding: of.uplinks.forwarding() }),
    storage: of.database?.status() ?? { ...NO_DATABASE },
    ...(flash && { flash }),
    ...(disk && { disk }),
    dropped: {
      rows: of.intake.counters.rejected_rows,
      packets: of.receive.dropped,
      records: log.lost,
      ...(of.events.dropped > 0 && { events: of.events.dropped }),
    },
    intake: { ...of.intake.counters },
    received: of.receive.report(),
    ...(cores && { core: cores.report }),
    ...(moved.length > 0 && { shared_ids: moved }),
    ...(of.receive.session && { sessions: of.receive.session.status() }),
    ...(attention.length > 0 && { attention }),
    ...(of.ids && { ids: of.ids.status() }),
    ...(of.config.problem && { config_problem: of.config.problem.message }),
    ...(needsRestart.length > 0 && { needs_restart: needsRestart }),
    ...(of.guard.safeMode && { safe_mode: of.guard.safeMode }),
    guard: of.guard.report(),
  }
}
