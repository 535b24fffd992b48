// The built-in sections of a running gateway, and of one that is not running, from its files.
import type { ConfigStore } from '../config'
import type { GatewayApi } from '../gateway/api'
import type { LatestReading } from '../gateway/latest'
import type { GatewayStatus } from '../gateway/status'
import type { TransportView } from '../links/transport-view'
import { type DisplaySource, databaseSettings, pipelineSettings } from './node-source'

interface GatewaySourceParts {
  readonly gateway: Pick<GatewayApi, 'status' | 'latest' | 'transport'>
  readonly config: ConfigStore
  /** the service manager's snapshot() */
  readonly plugins: () => object
}

interface FilesSourceParts {
  readonly config: ConfigStore
  readonly version: string
  readonly transport: () => TransportView
  readonly log: () => Promise<object>
}

/** most readings in a section, in device order */
const SHOWN_READINGS = 100

const readingRows = (latest: readonly LatestReading[]): object[] =>
  latest
    .flatMap(({ device_id, t_raw, medium, sensors }) =>
      sensors.map(({ id, value, unit, status }) => ({
        device: device_id,
        sensor: id,
        value,
        unit,
        status,
        at: new Date(t_raw).toISOString(),
        medium,
      })),
    )
    .slice(0, SHOWN_READINGS)

const linkRows = ({ links }: GatewayStatus): object[] =>
  Object.entries(links).map(([name, { state, delivery, rx, tx, errors, reason }]) => ({
    name,
    state,
    delivery,
    rx,
    tx,
    errors,
    ...(reason !== undefined && { reason }),
  }))

export function gatewaySource({ gateway, config, plugins }: GatewaySourceParts): DisplaySource {
  return {
    identity: () => {
      const { identity, version, role, uptime_s, time, safe_mode, config_problem } = gateway.status()
      return {
        ...identity,
        version,
        role,
        uptime_s,
        time,
        ...(safe_mode !== undefined && { safe_mode }),
        ...(config_problem !== undefined && { config_problem }),
      }
    },
    config: () => config.masked() as object,
    transport: () => ({ ...gateway.transport.view(), links: linkRows(gateway.status()) }),
    pipeline: () => {
      const { intake, received, dropped, uplinks, forwarding, log } = gateway.status()
      const readings = readingRows(gateway.latest())
      return { ...pipelineSettings(config), intake, received, dropped, uplinks, forwarding, log, readings }
    },
    plugins,
    db: () => ({ ...databaseSettings(config), ...gateway.status().storage }),
  }
}

/** The same sections without a gateway: configuration, identity and the log's first and last record. */
export const filesSource = ({ config, version, transport, log }: FilesSourceParts): DisplaySource => ({
  identity: () => ({
    device_id: config.get('device_id'),
    assigned_id: config.get('assigned_id'),
    version,
    role: 'none',
    config_path: config.path,
    data_dir: config.dataDir,
    ...(config.problem && { config_problem: config.problem.message }),
  }),
  config: () => config.masked() as object,
  transport: () => ({ ...transport(), links: [] }),
  pipeline: async () => ({ ...pipelineSettings(config), log: await log() }),
  // the plugins of the configuration: there is no service manager
  plugins: () => ({
    mount_index: [],
    runtime_index: [],
    config_index: Object.keys(config.config.RESOURCES.service_plugins),
  }),
  db: () => ({ ...databaseSettings(config), state: 'closed' }),
})
