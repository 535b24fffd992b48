// The web server's view of a running gateway. Secrets are masked; only keys below web_user.writable_config_prefixes can
// be written.
import { hostname } from 'node:os'
import type { CommandContext } from '../commands'
import type { JobRunner } from '../commands/jobs'
import { mayWrite } from '../config'
import type { ConfigStore } from '../config/config-store'
import { namesOf } from '../display'
import type { GatewayApi, TransportApi } from '../gateway/api'
import type { Unkept } from '../gateway/unsaved'
import { asOsError, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { diskFault } from '../lib/writable'
import { mediumFlag } from '../links/transport-view'
import type { UserStore } from '../services/users'
import { backupRestorer, backupWriter } from './backup'
import type { DisplayControl, PluginsControl, WebAuth, WebConfig, WebContext } from './context'
import { systemUpdate } from './system-update'
import { systemWifi } from './system-wifi'

export interface FromGatewayOptions {
  gateway: GatewayApi
  config: ConfigStore
  version: string
  auth: WebAuth
  logger: Logger
  users: UserStore
  jobs: JobRunner
  plugins: PluginsControl
  display: DisplayControl
  unkept: Unkept
  /** ends the process */
  stop: () => void
}

const prefixesOf = (config: ConfigStore): readonly string[] => config.get<string[]>('web_user.writable_config_prefixes')

/** The configuration as HTTP may read and write it. */
export const webConfig = (config: ConfigStore): WebConfig => ({
  get: key => config.masked(key),
  has: key => config.has(key),
  rows: () => config.rows(),
  prefixes: () => prefixesOf(config),
  writable: key => mayWrite(key, prefixesOf(config)),
  advice: () => config.advice(),
  set: (key, value, type) =>
    config.approved(limits => config.setting(key, value, type, limits), { prefixes: prefixesOf(config), strict: true }),
  setAll: updates =>
    config.approved(limits => config.settings(updates, limits), { prefixes: prefixesOf(config), strict: true }),
  update: nested =>
    config.approved(limits => config.updating(nested, limits), { prefixes: prefixesOf(config), strict: true }),
})

/** The media functions available over HTTP: flags below the writable prefixes. */
function mediaControl(config: ConfigStore, transport: TransportApi): Omit<TransportApi, 'view'> {
  return {
    toggle: async (medium, enabled) => {
      const key = mediumFlag(medium)
      if (key && !mayWrite(key, prefixesOf(config)))
        throw new OsError('FORBIDDEN', 'write blocked by writable_config_prefixes', { details: { keys: [key] } })
      return transport.toggle(medium, enabled)
    },
    reload: medium => transport.reload(medium),
  }
}

/** Commands over HTTP may write only what HTTP may write. */
export function overHttp(config: ConfigStore, transport: TransportApi): Pick<CommandContext, 'transport' | 'writable'> {
  const media = mediaControl(config, transport)
  return {
    transport: () => ({ view: () => transport.view(), ...media }),
    writable: () => prefixesOf(config),
  }
}

/** Before start() the view is not connected yet, which differs from being disabled. Throws DB_STARTING. */
function databaseOf(gateway: GatewayApi): GatewayApi['database'] {
  try {
    gateway.ready()
  } catch (thrown) {
    if (gateway.database && asOsError(thrown).code === 'STARTING')
      throw new OsError('DB_STARTING', 'database starting', { cause: thrown })
  }
  return gateway.database
}

/** All registered sections, by every name: built-in sections by their bare id and by PLUGIN:SECTION. */
const sectionsOf = (display: DisplayControl): Record<string, () => unknown> =>
  Object.fromEntries(
    display
      .metadata()
      .providers.flatMap(info =>
        namesOf(info).map(name => [name, async () => (await display.render(info.section_path)).data]),
      ),
  )

export function webContext(options: FromGatewayOptions): WebContext {
  const { gateway, config, version, auth, logger, users, jobs, plugins, display, unkept, stop } = options
  return {
    version,
    logger,
    auth,
    status: gateway.status,
    trouble: () => {
      const { failure } = gateway.log
      return failure ? (diskFault(failure) ?? 'the log cannot be written') : unkept.report()?.reason
    },
    get sections() {
      return { ...sectionsOf(display), users: () => users.list() }
    },
    config: webConfig(config),
    transport: () => gateway.transport.view(),
    media: mediaControl(config, gateway.transport),
    outputs: gateway.outputs,
    reload: gateway.reload,
    safeMode: gateway.safeMode,
    update: systemUpdate(process.env),
    wifi: systemWifi(process.env),
    backup: backupWriter(config, version),
    restore: backupRestorer(config, stop),
    latest: gateway.latest,
    db: () => databaseOf(gateway),
    settings: () => ({
      read_only: config.get<boolean>('web_user.read_only'),
      management_enabled: config.get<boolean>('web_user.management_enabled'),
    }),
    hosts: () => [hostname(), `${hostname()}.local`, ...config.get<string[]>('web_user.allowed_hosts')],
    sessionTimes: () => ({
      idleS: config.get<number>('web_user.session_idle_seconds'),
      maxS: config.get<number>('web_user.session_max_seconds'),
    }),
    events: gateway,
    log: () => logger.recent(),
    ...{ users, jobs, plugins, display },
  }
}
