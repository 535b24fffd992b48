// What the program needs of this machine, with a gateway and without one: the links it can open, its board, pins and outputs, its own
// sources, and the plugins of this build. Drivers are loaded on first use.
//
// Errors: an output that cannot be set at a start is logged with its reason, and the others are set.
import { resolve } from 'node:path'
import type { ConfigStore } from './config'
import type { GatewayApi } from './gateway/api'
import { displayAccess, mediaTable, pluginTable, sourceTable } from './index'
import type { Logger } from './lib/logger'
import type { Hardware } from './links/hardware'
import { Registry } from './links/registry'

/** This program's file: the local upstream runs it again. */
export const SCRIPT = typeof __filename === 'string' ? __filename : resolve('dist/os-node.js')

export const registry = (): Registry => new Registry({ media: mediaTable, sources: sourceTable })

export const pluginParts = (logger: Logger) => ({
  builtins: pluginTable,
  version: __VERSION__,
  logger,
  display: displayAccess(),
})

/** Pins, lines and buses of this machine with the links that use them, and the newest values of its sensors. */
export async function hardware(
  { config }: ConfigStore,
  values: GatewayApi['ownValues'] = () => ({}),
): Promise<Hardware> {
  const [{ board, hardwareOf }, { linksAsOpened }] = await Promise.all([
    import('../drivers/board'),
    import('./gateway/guard/check-links'),
  ])
  return hardwareOf(board(), config.gateway.board !== 'auto', await linksAsOpened(config, registry()), values)
}

/** Sets the GPIO outputs of the configuration before anything else; `hold`: until their source opens. */
export async function settled(config: ConfigStore, logger: Logger, occasion: 'start' | 'fault', hold: boolean) {
  const entries = config.config.gateway.sources ?? []
  if (!entries.some(({ type }) => type === 'gpio')) return []
  const { settleOutputs } = await import('../drivers/gpio/fault-outputs')
  const items = await settleOutputs(entries, occasion, hold)
  for (const { source, name, value, reason } of items)
    if (value !== null) logger.info(`output ${source}.${name} set to ${value} (${occasion})`)
    else if (reason !== 'kept as it is') logger.warn(`output ${source}.${name} not set: ${reason}`)
  return items
}

/** The sources of a machine that configures none. */
export const hostDefaults = async (config: ConfigStore) =>
  (await import('../drivers/host')).defaultSources(config.dataDir)

/** Sets the board for every driver that resolves pins, if it is configured. */
export async function chooseBoard({ config }: ConfigStore): Promise<void> {
  if (config.gateway.board !== 'auto') (await import('../drivers/board')).useBoard(config.gateway.board)
}
