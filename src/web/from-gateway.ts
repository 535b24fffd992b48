// What the web face is given of a running gateway. Secrets leave masked; of all there is only media can be switched.
import { underPrefix } from '../config'
import type { ConfigStore } from '../config/store'
import type { Gateway } from '../gateway/gateway'
import { OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { mediumFlag } from '../links/transport-view'
import type { TransportControl } from '../node/transport'
import type { MediaControl, WebAuth, WebContext } from './context'

export interface FromGatewayOptions {
  gateway: Gateway
  transport: TransportControl
  version: string
  auth: WebAuth
  logger: Logger
}

/** What of the media may be changed over HTTP: flags below the writable prefixes. */
function mediaControl(config: ConfigStore, transport: TransportControl): MediaControl {
  return {
    toggle: async (medium, enabled) => {
      const key = mediumFlag(medium)
      if (key && !underPrefix(key, config.get<string[]>('web_user.writable_config_prefixes')))
        throw new OsError('FORBIDDEN', 'write blocked by writable_config_prefixes', { details: { keys: [key] } })
      return transport.toggle(medium, enabled)
    },
    reload: medium => transport.reload(medium),
  }
}

export function webContext({ gateway, transport, version, auth, logger }: FromGatewayOptions): WebContext {
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
      transport: () => transport.view(),
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
    transport: () => transport.view(),
    media: mediaControl(config, transport),
    outputs: gateway.sources.outputs,
    reload: () => gateway.reload(),
    latest: () => gateway.latestReadings(),
    db: () => gateway.database,
    settings: () => ({ read_only: config.get<boolean>('web_user.read_only'), management_enabled: true }),
  }
}
