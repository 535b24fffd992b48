// The built-in sections of a library node: the node's own state, without a gateway.
import type { ConfigStore } from '../config'
import type { NodeBase } from '../node/node'
import type { SectionData } from './provider'

/** The data of the built-in sections, read when its section is. The caller masks secrets. */
export type DisplaySource = Record<
  'identity' | 'config' | 'transport' | 'pipeline' | 'plugins' | 'db',
  () => SectionData | Promise<SectionData>
>

/** The configured pipeline settings. */
export function pipelineSettings({ config }: ConfigStore): Record<string, unknown> {
  const { core_backend, precision, unit_dialect, diff_base, full_every, full_interval_seconds, zero_copy_transport } =
    config.engine_settings
  return {
    core: core_backend,
    precision,
    unit_dialect,
    diff_base,
    full_every,
    full_interval_seconds,
    zero_copy_transport,
  }
}

/** The configured database. */
export function databaseSettings({ config }: ConfigStore): { enabled: boolean; dialect: string } {
  const { enabled, dialect } = config.storage.sql
  return { enabled, dialect }
}

/** The part of a node that is shown. */
type ShownNode = Pick<
  NodeBase,
  | 'store'
  | 'deviceId'
  | 'assignedId'
  | 'configPath'
  | 'activeTransporters'
  | 'serviceManager'
  | 'dbManager'
  | 'lastRejected'
>

export const isNode = (value: unknown): value is ShownNode =>
  typeof value === 'object' && value !== null && 'store' in value && 'serviceManager' in value

export const nodeSource = (node: ShownNode): DisplaySource => ({
  identity: () => ({ device_id: node.deviceId, assigned_id: node.assignedId, config_path: node.configPath }),
  config: () => node.store.masked() as object,
  transport: () => {
    const { application_status, transport_status, physical_status } = node.store.config.RESOURCES
    return {
      default_medium: node.store.get('Node_Setting.default_medium'),
      active_transporters: Object.keys(node.activeTransporters),
      application_status,
      transport_status,
      physical_status,
    }
  },
  pipeline: () => ({ ...pipelineSettings(node.store), rejected_rows: node.lastRejected.length }),
  plugins: () => ({ ...node.serviceManager.snapshot() }),
  db: () => ({ ...databaseSettings(node.store), connected: node.dbManager?.connected ?? false }),
})
