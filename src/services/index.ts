// The services room: plugin contract, service manager, registry.

export type * from './contract'
export { BUILTIN_NAMES, pluginFragments } from './defaults'
export { httpPlugins } from './http'
export { type ManagerOptions, ServiceManager, type ServiceState } from './manager'
export {
  PLUGIN_ACTIONS,
  type PluginAction,
  type PluginItem,
  type PluginRequest,
  Plugins,
  type PluginsParts,
} from './plugins'
export {
  ensureAndMountPlugin,
  ensurePluginDefaults,
  equip,
  listBuiltinPlugins,
  normalizePluginName,
  type PluginMaker,
  pluginSettings,
  syncAllPluginDefaults,
} from './registry'
export { GatewayWeb, LocalWeb } from './web-user/service'
export { libraryWeb, makePlugins, managerOf, opensPage, type WiringParts } from './wiring'
