// The plugin registry (specification, "Plugin registry functions"): names and aliases, defaults that are merged into
// RESOURCES.service_plugins and saved, and the way from a name to a mounted service.
//
// What fails: an unknown name is NOT_FOUND with the nearest one; defaults that cannot be saved are reported by the error of
// the configuration (CONFIG_WRITE), and count all the same, since the schema has them.
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

/** `settings` over `standard`, section by section. */
function merged(standard: Settings, settings: unknown): Settings {
  if (!isObject(settings)) return standard
  const out: Settings = { ...standard, ...settings }
  for (const [key, value] of Object.entries(standard)) if (isObject(value)) out[key] = merged(value, settings[key])
  return out
}

/** Settings of a plugin: what the configuration says over the defaults. */
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
 * Puts what a plugin's settings lack into the configuration and saves it (a plain dict is changed in place). Returns the
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

/** The same for every built-in plugin, saved once. Settings by name. */
export function syncAllPluginDefaults(config: ConfigStore | Settings): Record<string, Record<string, unknown>> {
  if (!(config instanceof ConfigStore))
    return Object.fromEntries(BUILTIN_NAMES.map(name => [name, ensurePluginDefaults(config, name)]))
  const all = Object.fromEntries(BUILTIN_NAMES.map(name => [name, pluginSettings(config, name)]))
  config.update({ RESOURCES: { service_plugins: all } })
  return all
}

/** What a service manager needs to make plugins by name. */
export interface PluginMaker {
  readonly table: PluginTable
  host(name: string, definition: PluginDefinition): PluginHost
}

const makers = new WeakMap<ServiceManager, PluginMaker>()

/** Tells how the plugins of a manager are made. */
export function equip(manager: ServiceManager, maker: PluginMaker): void {
  makers.set(manager, maker)
}

/** Names of every plugin that a manager can make, built-in or not. */
const knownPlugins = (manager: ServiceManager): string[] => Object.keys(makers.get(manager)?.table ?? {})

/**
 * The service of a plugin, mounted on the node's service manager and, with `load`, loaded. One that is mounted already is
 * taken as it is. Throws NOT_FOUND, FORBIDDEN (enabled is false), PLUGIN_FAILED, TIMEOUT.
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
    const meant = nearest(name, knownPlugins(manager))
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
  // another caller was faster
  if (manager.get(name) === null) manager.mount(name, service, null, mode)
}
