// The dashboard: everything in one answer, in parts. A part that fails shows its error and does not affect the others.
import { briefJob } from '../commands/jobs'
import { asOsError } from '../lib/errors'
import { mayAct, type Role } from '../services/users'
import type { WebContext } from './context'
import { displayedReading } from './display-units'
import type { ServiceFacts } from './route'

const RECENT_JOBS = 5

async function section(context: WebContext, name: string, read: () => unknown): Promise<unknown> {
  try {
    return await read()
  } catch (thrown) {
    const error = asOsError(thrown)
    context.logger.warn(`dashboard section ${name}: ${error.code} ${error.message}`)
    return { error: error.code === 'INTERNAL' ? 'internal error' : error.message, code: error.code }
  }
}

/** run_stats etc. of the reference, from our status; only jobs that `role` may see. */
function overview(context: WebContext, service: ServiceFacts, role: Role): object {
  const { uptime_s, intake, received, dropped, links } = context.status()
  const states = Object.values(links).map(({ state }) => state)
  const ill = states.some(state => state === 'down' || state === 'degraded')
  const { jobs } = context
  return {
    run_stats: {
      status: ill ? 'degraded' : states.length > 0 ? 'healthy' : 'idle',
      uptime_s,
      packets_processed: (intake?.facts ?? 0) + (received?.facts ?? 0),
    },
    performance_stats: { ...intake, dropped },
    jobs: {
      total: jobs.counters.total,
      running: jobs.running,
      queued: jobs.queued,
      recent: mayAct(role, 'operator') ? jobs.list(role, RECENT_JOBS).map(briefJob) : [],
    },
    http_stats: service.http,
  }
}

/** `dashboard` of GET /api/dashboard. Unknown names in `sections` are ignored; without a known one: everything. */
export async function buildDashboard(
  context: WebContext,
  service: ServiceFacts,
  sections = '',
  role: Role = 'viewer',
  display = false,
): Promise<object> {
  // `status` and `latest` are ours, the others the reference's
  const table: Record<string, () => unknown> = {
    ...context.sections,
    overview_metrics: () => overview(context, service, role),
    display_providers: () => context.display.metadata(),
    display_sections: () => context.display.collect('json'),
    status: () => context.status(),
    latest: () => (display ? context.latest().map(displayedReading) : context.latest()),
  }
  const requested = sections
    .split(',')
    .map(name => name.trim())
    .filter(name => Object.hasOwn(table, name))
  // unless requested, sections named PLUGIN:SECTION are only in display_sections
  const names = requested.length > 0 ? new Set(requested) : Object.keys(table).filter(name => !name.includes(':'))
  const shown: Record<string, unknown> = {}
  for (const name of names) shown[name] = await section(context, name, table[name]!)
  const { read_only, management_enabled } = context.settings()
  return {
    service: {
      name: 'web_user',
      running: true,
      uptime_s: service.uptimeS,
      host: service.host,
      port: service.port,
      read_only,
      ...(context.update && { updates: true }),
      management_enabled,
      auth_enabled: context.auth.enabled(),
    },
    ...shown,
    timestamp: Math.floor(service.now / 1000),
    service_config: { version: context.version },
  }
}
