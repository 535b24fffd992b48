// The services room: plugin contract, service manager, registry.
export type * from './contract'
export { BUILTIN_NAMES, pluginFragments } from './defaults'
export { type ManagerOptions, ServiceManager, type ServiceState } from './manager'
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
