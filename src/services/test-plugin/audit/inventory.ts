// The inventory to be tested, by kind and name. It is read from the program itself, so that nothing new is missed.
import { createHash } from 'node:crypto'

export interface Inventory {
  /** `METHOD /path` */
  readonly routes: readonly string[]
  readonly commands: readonly string[]
  /** configuration keys, `[]` after lists */
  readonly keys: readonly string[]
  readonly plugins: readonly string[]
  /** `plugin command` */
  readonly plugin_commands: readonly string[]
}

export const KINDS = ['routes', 'commands', 'keys', 'plugins', 'plugin_commands'] as const
export type InventoryKind = (typeof KINDS)[number]

/** Sorted, each name once. */
export const inventoryOf = (parts: {
  routes: readonly { method: string; path: string }[]
  commands: readonly { name: string }[]
  keys: readonly { key: string }[]
  plugins: readonly string[]
  plugin_commands: Readonly<Record<string, object>>
}): Inventory => ({
  routes: sorted(parts.routes.map(({ method, path }) => `${method} ${path}`)),
  commands: sorted(parts.commands.map(({ name }) => name)),
  keys: sorted(parts.keys.map(({ key }) => key)),
  plugins: sorted(parts.plugins),
  plugin_commands: sorted(
    Object.entries(parts.plugin_commands).flatMap(([plugin, commands]) =>
      Object.keys(commands).map(command => `${plugin} ${command}`),
    ),
  ),
})

const sorted = (names: readonly string[]): string[] => [...new Set(names)].sort()

/** Hash to check that two lists of names are equal. */
export const digestOf = (inventory: Inventory): string =>
  createHash('sha256')
    .update(KINDS.map(kind => inventory[kind].join('\n')).join('\n\n'))
    .digest('hex')
    .slice(0, 16)
