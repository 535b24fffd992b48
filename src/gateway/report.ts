// The status of a running gateway, put together from its parts; status.ts says what each key means.

import type { DatabaseStatus } from '../storage'
import type { Gateway } from './gateway'
import type { GatewayStatus } from './status'
import type { TimeReport } from './time/watch'

const NO_DATABASE: DatabaseStatus = {
  state: 'closed',
  dialect: '',
  lag_records: 0,
  packets: 0,
  duplicates: 0,
  left: 0,
  refused: 0,
}

type Parts = Pick<
  Gateway,
  'config' | 'database' | 'guard' | 'identity' | 'ids' | 'intake' | 'log' | 'receive' | 'supervisor' | 'uplinks'
>

export interface Facts {
  readonly version: string
  readonly role: 'run' | 'serve'
  readonly uptimeS: number
  readonly needsRestart: readonly string[]
  readonly time: TimeReport
}

export function statusOf(of: Parts, { version, role, uptimeS, needsRestart, time }: Facts): GatewayStatus {
  const log = of.log.status()
  const links = of.supervisor.links()
  const uplinks = of.uplinks.status()
  const moved = of.receive.addresses.several()
  return {
    version,
    role,
    uptime_s: uptimeS,
    identity: { device_id: of.identity.deviceId, assigned_id: of.identity.assignedId },
    time,
    links: Object.fromEntries(
      Object.entries(links).map(([name, link]) => {
        return [name, { ...link, delivery: uplinks[name]?.delivery ?? null }]
      }),
    ),
    log,
    uplinks,
    // a server forwards to nobody: nothing waits there
    ...(role === 'run' && { forwarding: of.uplinks.forwarding() }),
    storage: of.database?.status() ?? { ...NO_DATABASE },
    dropped: {
      rows: of.intake.counters.rejected_rows,
      packets: of.receive.dropped,
      records: log.lost,
    },
    intake: { ...of.intake.counters },
    received: of.receive.report(),
    ...(moved.length > 0 && { shared_ids: moved }),
    ...(of.receive.session && { sessions: of.receive.session.status() }),
    ...(of.ids && { ids: of.ids.status() }),
    ...(of.config.problem && { config_problem: of.config.problem.message }),
    ...(needsRestart.length > 0 && { needs_restart: needsRestart }),
    ...(of.guard.safeMode && { safe_mode: of.guard.safeMode }),
    guard: of.guard.report(),
  }
}
