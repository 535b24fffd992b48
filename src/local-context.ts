// What commands use when no gateway runs: the files alone, and the parts of this machine. start-gateway.ts is the other half.
//
// Errors: each command's own; a part is made when a command first uses it.
import type { CommandContext, TerminalUiLike } from './commands'
import { closedLog } from './commands/adapters'
import type { ConfigStore } from './config'
import type { SectionReader } from './display'
import type { SourcesApi } from './gateway/api'
import { displayAccess, Node } from './index'
import { systemClock } from './lib/clock'
import type { Logger } from './lib/logger'
import { chooseBoard, hardware, hostDefaults, pluginParts, registry, settled } from './machine'
import { TransportControl } from './node/transport'
import { TransporterManager } from './node/transporters'
import { LocalWeb, makePlugins, managerOf, type Plugins } from './services'
import { newToken } from './services/users'
import { startGateway } from './start-gateway'

type LocalParts = Pick<CommandContext, 'config' | 'logger' | 'signal' | 'print'>

/** The media as configured. */
function localTransport(config: ConfigStore, logger: Logger): TransportControl {
  const links = registry()
  return new TransportControl({
    config,
    registry: links,
    manager: new TransporterManager({ config, registry: links, logger }),
  })
}

/** Sources are opened for a test and closed again. */
async function localSources(config: ConfigStore, logger: Logger): Promise<SourcesApi> {
  const { ConfiguredSources } = await import('./gateway/intake/test-source')
  const entries = async () => config.config.gateway.sources ?? (await hostDefaults(config))
  const dialect = config.config.engine_settings.unit_dialect
  return new ConfiguredSources(entries, registry(), { clock: systemClock, logger, dialect })
}

/** The HTTP service when no gateway runs: it starts one. */
export function localWeb(config: ConfigStore, logger: Logger, signal: AbortSignal): LocalWeb {
  return new LocalWeb({
    config,
    start: (place, stop) =>
      startGateway({
        ...{ config, logger, role: 'run', overrides: place },
        ...{ signal: AbortSignal.any([signal, stop]), stop: () => undefined },
      }),
    dashboard: async sections => (await localSections(config, logger)).read(sections ?? null),
  })
}

/** The sections from the files. */
async function localSections(config: ConfigStore, logger: Logger): Promise<SectionReader> {
  const { filesSource, getDisplayRegistry, RegistryReader, useDisplaySource } = await import('./display')
  const transport = localTransport(config, logger)
  const log = closedLog(config)
  useDisplaySource(
    filesSource({ config, version: __VERSION__, transport: () => transport.view(), log: () => log.summary() }),
  )
  return new RegistryReader(getDisplayRegistry())
}

/** The terminal UI of this process: it shows a running gateway, or the files while none runs. */
async function terminalUi(config: ConfigStore, logger: Logger, signal: AbortSignal): Promise<TerminalUiLike> {
  const [{ TerminalUi, tuiSettings }, { GatewaySections }] = await Promise.all([
    import('./tui'),
    import('./cli/sections'),
  ])
  let local: Promise<SectionReader> | undefined
  const reader = new GatewaySections(config.dataDir, () => {
    // the file may have changed since the last read
    config.reload()
    return (local ??= localSections(config, logger))
  })
  const title = (): string => `os-node ${__VERSION__}  ${config.get('device_id')}`.trim()
  const standard = tuiSettings(config.get('RESOURCES.service_plugins.tui'))
  return new TerminalUi(null, { reader, signal, title, standard })
}

/** The library's node and its plugins. */
function localNode({ config, logger, signal }: LocalParts): Pick<CommandContext, 'node' | 'plugins' | 'close'> {
  let made: Node | undefined
  let plugins: Plugins | undefined
  const node = (): Node =>
    (made ??= new Node(null, {
      config,
      logger,
      idAllocator: null,
      serviceManager: managerOf(config, logger, displayAccess()),
    }))
  return {
    node: async () => node(),
    plugins: async () =>
      (plugins ??= makePlugins({ ...pluginParts(logger), node: node(), web: localWeb(config, logger, signal) })),
    close: async () => {
      await plugins?.close()
      await made?.close()
    },
  }
}

/** A changed configuration is checked by making its links, as in a gateway. */
async function checkedLinks(config: ConfigStore): Promise<Pick<CommandContext, 'linkProblems'>> {
  await chooseBoard(config)
  const { adviseOn, checkLinks, linkProblems } = await import('./gateway/guard/check-links')
  config.lists = async () => ({ 'gateway.sources': await hostDefaults(config) })
  adviseOn(config, registry())
  config.approve = next => checkLinks(config.config, next, registry())
  return { linkProblems: () => linkProblems(config.config, registry()) }
}

/** The context of commands when no gateway runs; `stop`: ends this process like Ctrl-C. `started`: a gateway started in this process. */
export async function localContext(
  parts: LocalParts,
  { stop, started }: Record<'stop' | 'started', () => void>,
): Promise<CommandContext> {
  const { config, logger, signal, print } = parts
  return {
    ...(await checkedLinks(config)),
    ...localNode(parts),
    ...{ version: __VERSION__, config, logger, via: 'local', signal, print },
    log: closedLog(config),
    transport: () => localTransport(config, logger),
    sources: () => localSources(config, logger),
    hardware: () => hardware(config),
    safeOutputs: async () =>
      process.env.SERVICE_RESULT === 'success' ? [] : await settled(config, logger, 'fault', false),
    display: () => localSections(config, logger),
    terminalUi: () => terminalUi(config, logger, signal),
    safeMode: async leave => {
      const { crashesOf } = await import('./gateway/guard/process')
      return crashesOf(config, __VERSION__, logger).look(leave)
    },
    startGateway: async (role, overrides) => {
      const gateway = await startGateway({ config, logger, signal, stop, role, overrides })
      started()
      return gateway
    },
    openUrl: async url => (await import('./cli/browser')).openUrl(url),
    newToken: () => newToken(config.dataDir),
  }
}
