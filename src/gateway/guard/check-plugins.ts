// Refuses settings of plugins that do not exist when a configuration is written. A third-party plugin is recognised by its
// file. Its folder need not be enabled, so that its settings can be written first (docs/plugins.md).
import { join, resolve } from 'node:path'
import { type Config, ConfigStore } from '../../config'
import { OsError, orElse } from '../../lib/errors'
import { realFiles } from '../../lib/files'
import { nearest } from '../../lib/nearest'

const PREFIX = 'RESOURCES.service_plugins.'

/**
 * Throws UNKNOWN_KEY for the first section of RESOURCES.service_plugins that is new in `next` and belongs to a plugin that is
 * neither built in nor in the plugin folder.
 */
export function refuseStrayPlugins(now: Config, next: Config): void {
  const store = ConfigStore.of(now)
  const [before, after] = [now, next].map(config => config.RESOURCES.service_plugins)
  const added = Object.keys(after!).filter(name => !Object.hasOwn(before!, name))
  if (!store || added.length === 0) return
  const builtin = store.rows().flatMap(({ key }) => (key.startsWith(PREFIX) ? [key.split('.')[2]!] : []))
  const { dir = '' } = next.plugins as { dir?: string }
  const folder = dir === '' ? join(store.dataDir, 'plugins') : resolve(dir)
  const files = orElse([], () => realFiles.list(folder)).map(file =>
    file
      .replace(/\.[cm]?js$/, '')
      .toLowerCase()
      .replaceAll('-', '_'),
  )
  const stray = added.find(name => !builtin.includes(name) && !files.includes(name))
  if (stray === undefined) return
  const meant = nearest(stray, [...builtin, ...files])
  const key = PREFIX + stray
  throw new OsError('UNKNOWN_KEY', `${key} is not a known key${meant ? `; did you mean ${PREFIX + meant}?` : ''}`, {
    hint: `a third-party plugin is known once its file is in ${folder}`,
    details: { key, ...(meant && { did_you_mean: PREFIX + meant }) },
  })
}
