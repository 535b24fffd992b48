// The services room: plugin contract, service manager, registry.

export type * from './contract'
export { BUILTIN_NAMES, pluginFragments } from './defaults'
export { httpPlugins } from './http'
export { libraryWeb, makePlugins, managerOf, opensPage } from './make-plugins'
export { ServiceManager } from './manager'
export { type PluginItem, Plugins } from './plugins'
export {
  ensureAndMountPlugin,
  ensurePluginDefaults,
  equip,
  listBuiltinPlugins,
  normalizePluginName,
  pluginSettings,
  syncAllPluginDefaults,
} from './registry'
export { GatewayWeb, LocalWeb } from './web-user/service'
