// What the web face is given of a running gateway. Secrets leave masked; nothing here changes anything.
import type { ConfigStore } from '../config/store'
import type { Gateway } from '../gateway/gateway'
import type { Logger } from '../lib/logger'
import { MEDIA, type Registry } from '../links/registry'
import type { TransportView, WebAuth, WebContext } from './context'

export interface FromGatewayOptions {
  gateway: Gateway
  registry: Registry
  version: string
  auth: WebAuth
  logger: Logger
}

/** GET /api/transport: the status maps as configured, and every medium of the specification with its layer. */
export function transportView(config: ConfigStore, registry: Registry): TransportView {
  const flags = (section: string): Record<string, boolean> => ({ ...config.get<Record<string, boolean>>(section) })
  const items = MEDIA.map(info => ({
    name: info.name,
    layer: info.layer,
    enabled: config.get(`RESOURCES.${info.status}.${info.options_name}`) === true,
  }))
  return {
    transport: {
      application_status: flags('RESOURCES.application_status'),
      transport_status: flags('RESOURCES.transport_status'),
      physical_status: flags('RESOURCES.physical_status'),
      transporters_status: Object.fromEntries(items.map(item => [item.name.toLowerCase(), item.enabled])),
      active_transporters: items.filter(item => item.enabled && registry.hasMedium(item.name)).map(item => item.name),
    },
    items,
  }
}

export function webContext({ gateway, registry, version, auth, logger }: FromGatewayOptions): WebContext {
  const { config } = gateway
  const { engine_settings, RESOURCES } = config.config
  return {
    version,
    logger,
    auth,
    status: () => gateway.status(),
    sections: {
      identity: () => ({ device_id: gateway.identity.deviceId, assigned_id: gateway.identity.assignedId }),
      config: () => config.masked(),
      transport: () => transportView(config, registry),
      pipeline: () => ({
        core: engine_settings.core_backend,
        precision: engine_settings.precision,
        unit_dialect: engine_settings.unit_dialect,
        diff_base: engine_settings.diff_base,
        uplinks: gateway.status().uplinks,
      }),
      plugins: () => ({ mount_index: [], runtime_index: [], config_index: Object.keys(RESOURCES.service_plugins) }),
      db: () => ({
        enabled: config.get('storage.sql.enabled'),
        ...gateway.status().storage,
      }),
      users: () => [],
    },
    config: {
      get: key => config.masked(key),
      has: key => config.has(key),
    },
    transport: () => transportView(config, registry),
    latest: () => gateway.latestReadings(),
    db: () => gateway.database,
    settings: () => ({ read_only: config.get<boolean>('web_user.read_only'), management_enabled: true }),
  }
}
