// The plugins of a gateway, and those of a command where none runs: what main would otherwise say twice. The concrete rooms
// (which plugins there are, the display, the HTTP service) are handed in.
import type { ConfigStore } from '../config'
import type { Gateway } from '../gateway/gateway'
import type { Logger } from '../lib/logger'
import type { DisplayAccess, GatewayAccess, PluginTable, WebService } from './contract'
import { ServiceManager } from './manager'
import { Plugins, type PluginsParts } from './plugins'
import { pluginSettings } from './registry'
import { pluginSwitches } from './third-party'

/** A service manager with the time limits of the configuration. */
export const managerOf = (config: ConfigStore, logger: Logger, display?: DisplayAccess): ServiceManager =>
  new ServiceManager(config, 'runtime', {
    logger: logger.child('plugins'),
    limitMs: pluginSwitches(config).start_timeout_s * 1000,
    ...(display && { display }),
  })

/** How a node of the library comes to an HTTP service; said by main, which alone can start a gateway. */
export const libraryWeb: { of?: (config: ConfigStore) => WebService } = {}

/** Whether a gateway's page opens with it: as its plugin's settings say, and always in safe mode, which is left by it. */
export function opensPage(config: ConfigStore, { guard }: Gateway): boolean {
  const { enabled, auto_start } = pluginSettings(config, 'web_user')
  return guard.safeMode !== undefined || (enabled === true && auto_start === true)
}

export interface WiringParts {
  /** its serviceManager is the one of managerOf() */
  readonly node: PluginsParts['node']
  readonly builtins: PluginTable
  readonly version: string
  readonly logger: Logger
  readonly display: DisplayAccess
  readonly web: WebService
  /** absent: for one command, without a gateway */
  readonly gateway?: Gateway
  readonly access?: GatewayAccess
  readonly frozen?: readonly string[]
}

export function makePlugins({ node, gateway, access, logger, ...parts }: WiringParts): Plugins {
  const plugins = new Plugins({
    ...parts,
    node,
    manager: node.serviceManager as ServiceManager,
    logger: logger.child('plugins'),
    ...(access && { gateway: access }),
    ...(gateway && { safeMode: () => gateway.guard.safeMode }),
  })
  void gateway?.guard.left.then(() => plugins.startConfigured())
  return plugins
}
