// id-info, snapshot, pipeline-info, db-status: short summaries. In a running gateway with its counters; without one
// from the files.
import type { GatewayStatus } from '../../gateway/status'
import { isAssigned } from '../../lib/assigned-id'
import type { CommandContext } from '../context'
import type { Paint, Verb, VerbResult } from '../verb'

/** `name  value` lines; undefined values are skipped. */
function pairs(rows: readonly (readonly [string, unknown])[], paint: Paint): string {
  const shown = rows.filter(([, value]) => value !== undefined && value !== '')
  const width = Math.max(...shown.map(([name]) => name.length)) + 2
  return shown.map(([name, value]) => `${paint.dim(name.padEnd(width))}${String(value)}`).join('\n')
}

interface IdInfo {
  device_id: string
  assigned_id: number
  assigned: boolean
  config_path: string
  server: { host: string; port: number }
  ids?: NonNullable<GatewayStatus['ids']>
}

export const idInfo: Verb<IdInfo> = {
  name: 'id-info',
  summary: 'show the name and id of this device, and the id server',
  examples: ['os-node id-info', 'os-node id-info --json'],
  where: 'either',
  async run({ config, gateway }) {
    const { device_id, assigned_id, Client_Core: server } = config.config
    const ids = gateway?.status().ids
    return {
      value: {
        device_id,
        assigned_id,
        assigned: isAssigned(assigned_id),
        config_path: config.path,
        server: { host: server.server_host, port: server.server_port },
        ...(ids && { ids }),
      },
    }
  },
  text({ device_id, assigned_id, config_path, server, ids }, paint) {
    const has = isAssigned(assigned_id)
    const rows = [
      ['device', device_id || 'without a name'],
      ['id', has ? assigned_id : `none yet; os-node ensure-id requests one from ${server.host}:${server.port}`],
      ['stored in', config_path],
      ['assigns ids', ids && (ids.problem ?? `${ids.allocated ?? 0} in use, of a ${ids.source}`)],
    ] as const
    return pairs(rows, paint)
  },
}

export const snapshot: Verb = {
  name: 'snapshot',
  summary: 'show identity, services and enabled media',
  examples: ['os-node snapshot', 'os-node snapshot --json'],
  where: 'either',
  async run(context): Promise<VerbResult> {
    const { device_id, assigned_id } = context.config.config
    const services = (await context.plugins()).manager.snapshot()
    return {
      value: {
        device_id,
        assigned_id,
        services,
        transporters: context.transport().view().transport.active_transporters,
      },
    }
  },
}

/** The data of pipeline-info and of `watch --module pipeline`. */
export function pipelineFacts({ config, gateway }: CommandContext): Record<string, unknown> {
  const { engine_settings: engine, Node_Setting } = config.config
  const status = gateway?.status()
  return {
    core: engine.core_backend,
    precision: engine.precision,
    unit_dialect: engine.unit_dialect,
    diff_base: engine.diff_base,
    full_every: engine.full_every,
    full_interval_seconds: engine.full_interval_seconds,
    zero_copy_transport: engine.zero_copy_transport,
    tx_batch: {
      enabled: engine.tx_batch_enabled,
      window_ms: engine.tx_batch_window_ms,
      max_items: engine.tx_batch_max_items,
    },
    network_retry: engine.network_retry,
    default_medium: Node_Setting.default_medium,
    ...(status && {
      intake: status.intake,
      received: status.received,
      dropped: status.dropped,
      uplinks: Object.fromEntries(
        Object.entries(status.uplinks).map(([name, { carrying, acked, sent, resent, backlog, in_flight }]) => [
          name,
          { carrying, acked, sent, resent, backlog, in_flight },
        ]),
      ),
    }),
  }
}

export const pipelineInfo: Verb = {
  name: 'pipeline-info',
  summary: 'show core, precision, units, key frames and counters of the pipeline',
  examples: ['os-node pipeline-info', 'os-node pipeline-info --json'],
  where: 'either',
  run: async context => ({ value: pipelineFacts(context) }),
  text(value, paint) {
    const flat = Object.entries(value).map(([name, item]) => {
      if (typeof item !== 'object' || item === null) return [name, item] as const
      const parts = Object.entries(item).map(([key, part]) =>
        typeof part === 'object' && part !== null
          ? `${key} (${Object.entries(part)
              .map(([k, v]) => `${k} ${v}`)
              .join(', ')})`
          : `${key} ${part}`,
      )
      return [name, parts.join(', ')] as const
    })
    return pairs(flat, paint)
  },
}

export const dbStatus: Verb = {
  name: 'db-status',
  summary: 'show state, dialect and progress of the database',
  examples: ['os-node db-status', 'os-node db-status --json'],
  where: 'either',
  async run({ config, gateway }) {
    const { enabled, dialect } = config.config.storage.sql
    return { value: { enabled, ...gateway?.status().storage, ...(await gateway?.database?.counted()), dialect } }
  },
}
