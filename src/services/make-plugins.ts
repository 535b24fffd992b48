// The plugins of a gateway, and those of a command without a gateway. The concrete rooms (which plugins exist, the display,
// the HTTP service) are passed in by main.
import type { ConfigStore } from '../config'
import type { GatewayApi } from '../gateway/api'
import type { Logger } from '../lib/logger'
import type { DisplayAccess, GatewayAccess, WebService } from './contract'
import { ServiceManager } from './manager'
import { Plugins, type PluginsParts } from './plugins'
import { pluginSettings } from './registry'
import { pluginSwitches } from './third-party'

/** A service manager with the configured time limits. */
export const managerOf = (config: ConfigStore, logger: Logger, display?: DisplayAccess): ServiceManager =>
  new ServiceManager(config, 'runtime', {
    logger: logger.child('plugins'),
    limitMs: pluginSwitches(config).start_timeout_s * 1000,
    ...(display && { display }),
  })

/** How a library node gets an HTTP service; set by main, which alone can start a gateway. */
export const libraryWeb: { of?: (config: ConfigStore) => WebService } = {}

/**
 * Whether a gateway's page starts with it: as its plugin's settings say, and always in safe mode, since the page can end safe
 * mode.
 */
export function opensPage(config: ConfigStore, gateway: Pick<GatewayApi, 'safeModeReason'>): boolean {
  const { enabled, auto_start } = pluginSettings(config, 'web_user')
  return gateway.safeModeReason() !== undefined || (enabled === true && auto_start === true)
}

/** `node`: its serviceManager is the result of managerOf(). */
interface WiringParts extends Omit<PluginsParts, 'manager' | 'gateway' | 'safeMode'> {
  readonly logger: Logger
  /** absent: for one command, without a gateway */
  readonly gateway?: GatewayAccess & Pick<GatewayApi, 'safeModeReason' | 'onSafeModeLeft'>
}

export function makePlugins({ node, gateway, logger, ...parts }: WiringParts): Plugins {
  const plugins = new Plugins({
    ...parts,
    node,
    manager: node.serviceManager as ServiceManager,
    logger: logger.child('plugins'),
    ...(gateway && { gateway, safeMode: gateway.safeModeReason }),
  })
  gateway?.onSafeModeLeft(() => void plugins.startConfigured())
  return plugins
}
