// Converts older spellings to ours: `OpenSynaptic_Setting` for `Node_Setting`, the reference's spellings for no id, and
// its place of the web_user switches under RESOURCES.service_plugins (decision 0050). A value in our place has priority. The file
// itself is not rewritten.
import { UNASSIGNED } from '../lib/assigned-id'
import { isObject } from '../lib/objects'
import type { Tree } from './keys'

/** Keys of web_user that the reference stores with the plugin. */
const MOVED = ['auth_enabled', 'read_only', 'management_enabled', 'writable_config_prefixes', 'tls', 'ui'] as const

export function normalize(raw: Tree): { tree: Tree; warnings: readonly string[] } {
  const warnings: string[] = []
  const tree: Tree = { ...raw }
  if (isObject(raw.OpenSynaptic_Setting)) {
    tree.Node_Setting = { ...raw.OpenSynaptic_Setting, ...(isObject(raw.Node_Setting) ? raw.Node_Setting : {}) }
    delete tree.OpenSynaptic_Setting
  }
  const id = raw.assigned_id
  if (id === null || id === '' || id === 'UNKNOWN') tree.assigned_id = UNASSIGNED
  else if (typeof id === 'string' && /^\d{1,10}$/.test(id)) tree.assigned_id = Number(id)
  const plugin =
    isObject(raw.RESOURCES) && isObject(raw.RESOURCES.service_plugins) && raw.RESOURCES.service_plugins.web_user
  if (isObject(plugin)) {
    const top = isObject(raw.web_user) ? raw.web_user : {}
    const moved: Tree = {}
    for (const name of MOVED) {
      if (!Object.hasOwn(plugin, name)) continue
      if (Object.hasOwn(top, name)) {
        warnings.push(`RESOURCES.service_plugins.web_user.${name} is ignored: web_user.${name} is set and wins`)
      } else {
        moved[name] = plugin[name]
        warnings.push(`RESOURCES.service_plugins.web_user.${name} is read as web_user.${name}; move it there`)
      }
    }
    if (Object.keys(moved).length > 0) tree.web_user = { ...moved, ...top }
    const settings = Object.fromEntries(Object.entries(plugin).filter(([name]) => !MOVED.includes(name as never)))
    const resources = raw.RESOURCES as Tree
    tree.RESOURCES = { ...resources, service_plugins: { ...(resources.service_plugins as Tree), web_user: settings } }
  }
  return { tree, warnings }
}

/** The key that a spelling means, so that prefixes are compared with the key that would be written (S8). */
export function meantPath(path: readonly string[]): string[] {
  const [head, second, third, fourth] = path
  if (head === 'OpenSynaptic_Setting') return ['Node_Setting', ...path.slice(1)]
  const plugin = head === 'RESOURCES' && second === 'service_plugins' && third === 'web_user'
  return plugin && MOVED.includes(fourth as never) ? ['web_user', ...path.slice(3)] : [...path]
}

/** The position of a normalized key in the file: the older place if only that has it. */
export function placeInFile(raw: Tree, path: readonly string[]): string[] {
  const [head, second] = path
  const has = (tree: unknown, name: string | undefined): boolean =>
    name !== undefined && isObject(tree) && Object.hasOwn(tree, name)
  if (head === 'Node_Setting' && !has(raw.Node_Setting, second) && has(raw.OpenSynaptic_Setting, second)) {
    return ['OpenSynaptic_Setting', ...path.slice(1)]
  }
  const plugins = isObject(raw.RESOURCES) ? raw.RESOURCES.service_plugins : undefined
  const plugin = isObject(plugins) ? plugins.web_user : undefined
  if (head === 'web_user' && MOVED.includes(second as never) && !has(raw.web_user, second) && has(plugin, second)) {
    return ['RESOURCES', 'service_plugins', 'web_user', ...path.slice(1)]
  }
  return [...path]
}
