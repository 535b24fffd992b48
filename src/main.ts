// The program: the library when required, the CLI otherwise. This file has what commands use when no gateway runs: the
// files alone. start-gateway.ts is the other half. Besides index.ts, only these two files name concrete rooms.
//
// Errors: a command that cannot be run ends the process with the exit status of its error's code, and says what to do.
import { isMainThread, workerData } from 'node:worker_threads'
import type { CommandContext, TerminalUiLike } from './commands'
import { closedLog } from './commands/adapters'
import type { ConfigStore } from './config'
import type { SectionReader } from './display'
import type { SourcesApi } from './gateway/api'
import { followsParent } from './gateway/parent-watch'
import { displayAccess, fragments, Node } from './index'
import { systemClock } from './lib/clock'
import { type Logger, silentLogger } from './lib/logger'
import { mapUncaught } from './lib/stacks'
import { TransportControl } from './node/transport'
import { TransporterManager } from './node/transporters'
import { LocalWeb, libraryWeb, makePlugins, managerOf, type Plugins } from './services'
import { selfTest } from './services/self-test'
import { ROLE_VARIABLE, STRESS_ROLE } from './services/test-plugin/role'
import { newToken } from './services/users'
import { hardware, hostDefaults, pluginParts, registry, SCRIPT, settled, startGateway } from './start-gateway'

export * from './index'

/** by then the start is complete, and its page was shown */
const KEEP_MS = 5000

if (isMainThread) mapUncaught()

type LocalParts = Pick<CommandContext, 'config' | 'logger' | 'signal' | 'print'>

/** Without a gateway: from the files alone. */
function localTransport(config: ConfigStore, logger: Logger): TransportControl {
  const links = registry()
  return new TransportControl({
    config,
    registry: links,
    manager: new TransporterManager({ config, registry: links, logger }),
  })
}

/** Without a gateway: sources are opened for a test and closed again. */
async function localSources(config: ConfigStore, logger: Logger): Promise<SourcesApi> {
  const { ConfiguredSources } = await import('./gateway/intake/test-source')
  const entries = async () => config.config.gateway.sources ?? (await hostDefaults(config))
  const dialect = config.config.engine_settings.unit_dialect
  return new ConfiguredSources(entries, registry(), { clock: systemClock, logger, dialect })
}

/** The HTTP service when no gateway runs: it starts one. */
function localWeb(config: ConfigStore, logger: Logger, signal: AbortSignal): LocalWeb {
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
libraryWeb.of = config => localWeb(config, silentLogger, new AbortController().signal)

/** Sets the board for every driver that resolves pins, if it is configured. */
async function chooseBoard({ config }: ConfigStore): Promise<void> {
  if (config.gateway.board !== 'auto') (await import('../drivers/board')).useBoard(config.gateway.board)
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

/** The context of commands when no gateway runs; `stop`: ends this process like Ctrl-C. */
async function localContext({ config, logger, signal, print }: LocalParts, stop: () => void): Promise<CommandContext> {
  let made: Node | undefined
  const node = (): Node =>
    (made ??= new Node(null, {
      config,
      logger,
      idAllocator: null,
      serviceManager: managerOf(config, logger, displayAccess()),
    }))
  let plugins: Plugins | undefined
  await chooseBoard(config)
  const { adviseOn, checkLinks, linkProblems } = await import('./gateway/guard/check-links')
  config.lists = async () => ({ 'gateway.sources': await hostDefaults(config) })
  adviseOn(config, registry())
  config.approve = next => checkLinks(config.config, next, registry())
  return {
    version: __VERSION__,
    config,
    logger,
    via: 'local',
    linkProblems: () => linkProblems(config.config, registry()),
    signal,
    log: closedLog(config),
    node: async () => node(),
    plugins: async () =>
      (plugins ??= makePlugins({
        ...pluginParts(logger),
        node: node(),
        web: localWeb(config, logger, signal),
      })),
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
      const started = await startGateway({ config, logger, signal, stop, role, overrides })
      // signals the launcher, which stores the bytecode of this start for the next one
      setTimeout(() => process.emit('osNodeStarted' as never), KEEP_MS).unref()
      return started
    },
    openUrl: async url => (await import('./cli/browser')).openUrl(url),
    newToken: () => newToken(config.dataDir),
    print,
    close: async () => {
      await plugins?.close()
      await made?.close()
    },
  }
}

async function cli(): Promise<void> {
  const [{ runCli }, { commandLine }] = await Promise.all([import('./cli'), import('./commands')])
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort())
  process.exitCode = await runCli(commandLine(process.argv[1], process.argv.slice(2)), {
    version: __VERSION__,
    env: process.env,
    cwd: process.cwd(),
    stdout: process.stdout,
    stderr: process.stderr,
    signal: stop.signal,
    fragments: fragments(),
    ...(followsParent() && { logPrefix: 'upstream | ' }),
    context: options => localContext(options, () => stop.abort()),
  })
  // open handles (a waiting socket, a timer) must not keep a finished command alive
  setTimeout(() => process.exit(), 2000).unref()
}

const stressChild = (): void => void selfTest(SCRIPT).then(({ runStressChild }) => runStressChild(SCRIPT))

if (!isMainThread) {
  if (workerData?.role === STRESS_ROLE) stressChild()
} else if (process.send !== undefined && process.env[ROLE_VARIABLE] === STRESS_ROLE) stressChild()
else if (typeof require !== 'undefined' && require.main === module) void cli()
