// The plugin registry (specification, "Plugin registry functions"): names and aliases, defaults that are merged into
// RESOURCES.service_plugins and saved, and the creation of a mounted service from a name.
//
// Errors: an unknown name is NOT_FOUND with the nearest one. If defaults cannot be saved, the configuration's error
// (CONFIG_WRITE) is reported, and the defaults apply nevertheless, since the schema contains them.
import { ConfigStore } from '../config'
import { OsError } from '../lib/errors'
import { nearest } from '../lib/nearest'
import { isObject } from '../lib/objects'
import type { PluginDefinition, PluginHost, PluginTable, Service } from './contract'
import { BUILTIN_NAMES, builtinFacts, pluginDefaults } from './defaults'
import { guarded } from './guarded'
import type { ServiceManager } from './manager'

const ALIASES: ReadonlyMap<string, string> = new Map(
  BUILTIN_NAMES.flatMap(name => builtinFacts(name)!.aliases.map(alias => [alias, name] as const)),
)

/** `Web-User` → `web_user`, `deps` → `dependency_manager`; any other name in lower case with `_` for `-`. */
export function normalizePluginName(name: string): string {
  const plain = name.trim().toLowerCase().replaceAll('-', '_')
  return ALIASES.get(plain) ?? plain
}

/** Names of the built-in plugins. */
export const listBuiltinPlugins = (): string[] => [...BUILTIN_NAMES]

export const pluginKey = (name: string): string => `RESOURCES.service_plugins.${name}`

type Settings = Record<string, unknown>

/** `settings` merged over `standard`, section by section. */
function merged(standard: Settings, settings: unknown): Settings {
  if (!isObject(settings)) return standard
  const out: Settings = { ...standard, ...settings }
  for (const [key, value] of Object.entries(standard)) if (isObject(value)) out[key] = merged(value, settings[key])
  return out
}

/** Settings of a plugin: the configuration merged over the defaults. */
export function pluginSettings(
  config: ConfigStore | Settings,
  name: string,
  own: Readonly<Settings> = {},
): Record<string, unknown> {
  const standard = pluginDefaults(name, own)
  if (config instanceof ConfigStore) return merged(standard, config.get(pluginKey(name)))
  const resources = isObject(config.RESOURCES) ? config.RESOURCES : {}
  const plugins = isObject(resources.service_plugins) ? resources.service_plugins : {}
  return merged(standard, plugins[name])
}

/**
 * Adds missing settings of a plugin to the configuration and saves it (a plain dict is changed in place). Returns the
 * settings. Throws CONFIG_WRITE, CONFIG_SYNTAX.
 */
export function ensurePluginDefaults(
  config: ConfigStore | Settings,
  pluginName: string,
  own: Readonly<Settings> = {},
): Record<string, unknown> {
  const name = normalizePluginName(pluginName)
  const settings = pluginSettings(config, name, own)
  if (config instanceof ConfigStore)
    config.update({ RESOURCES: { service_plugins: { [name]: settings } } }, { own: true })
  else {
    const resources = isObject(config.RESOURCES) ? config.RESOURCES : (config.RESOURCES = {})
    const tree = resources as Settings
    const plugins = isObject(tree.service_plugins) ? tree.service_plugins : (tree.service_plugins = {})
    ;(plugins as Settings)[name] = settings
  }
  return settings
}

/** Like ensurePluginDefaults(), for every built-in plugin, saved once. Settings by name. */
export function syncAllPluginDefaults(config: ConfigStore | Settings): Record<string, Record<string, unknown>> {
  if (!(config instanceof ConfigStore))
    return Object.fromEntries(BUILTIN_NAMES.map(name => [name, ensurePluginDefaults(config, name)]))
  const all = Object.fromEntries(BUILTIN_NAMES.map(name => [name, pluginSettings(config, name)]))
  config.update({ RESOURCES: { service_plugins: all } })
  return all
}

/** What a service manager needs to create plugins by name. */
export interface PluginMaker {
  readonly table: PluginTable
  host(name: string, definition: PluginDefinition): PluginHost
}

const makers = new WeakMap<ServiceManager, PluginMaker>()

/** Sets how the plugins of a manager are created. */
export function equip(manager: ServiceManager, maker: PluginMaker): void {
  makers.set(manager, maker)
}

/**
 * The service of a plugin, mounted on the node's service manager and, with `load`, loaded. An already mounted one is returned
 * unchanged. Throws NOT_FOUND, FORBIDDEN (enabled is false), PLUGIN_FAILED, TIMEOUT.
 */
export async function ensureAndMountPlugin(
  node: { readonly serviceManager: unknown },
  pluginName: string,
  load = false,
  mode = 'runtime',
): Promise<Service> {
  const manager = node.serviceManager as ServiceManager
  const name = normalizePluginName(pluginName)
  const mounted = manager.get(name) as Service | null
  if (mounted === null) await mountPlugin(manager, name, mode)
  if (load) await manager.load(name)
  return manager.get(name) as Service
}

async function mountPlugin(manager: ServiceManager, name: string, mode: string): Promise<void> {
  const maker = makers.get(manager)
  const load = maker && Object.hasOwn(maker.table, name) ? maker.table[name] : undefined
  if (!maker || !load) {
    const meant = nearest(name, Object.keys(maker?.table ?? {}))
    throw new OsError('NOT_FOUND', `no plugin ${JSON.stringify(name)}${meant ? `; did you mean ${meant}?` : ''}`, {
      hint: 'os-node plugin-list shows them',
    })
  }
  const definition = await guarded(`${name}: import`, manager.limitMs, load)
  const host = maker.host(name, definition)
  if (host.settings().enabled === false) {
    throw new OsError('FORBIDDEN', `plugin ${name} is turned off`, { hint: `set ${pluginKey(name)}.enabled to true` })
  }
  const service = await guarded(`${name}: create`, manager.limitMs, () => definition.create(host))
  // another caller has mounted it meanwhile
  if (manager.get(name) === null) manager.mount(name, service, null, mode)
}
