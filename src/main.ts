// The program: the library when required, the CLI otherwise. Beside index.ts the only file
// that names concrete rooms: it hands each room what it needs of the others, and loads what only a gateway needs when one
// starts.
//
// What fails at a start: a data directory that can be none (DATA_DIR), another gateway on it (LOCKED), a port in use (PORT_BUSY):
// the process ends with the code's exit status and says what to do. Everything later is a state, and so is a disk (R30).
import { resolve } from 'node:path'
import { isMainThread, workerData } from 'node:worker_threads'
import type { CommandContext, StartedGateway, StartOverrides, TerminalUiLike } from './commands'
import { logOf, logOfGateway, nodeLike } from './commands/adapters'
import { banner } from './commands/banner'
import { lanAddress, loginUrl } from './commands/login'
import type { ConfigStore } from './config'
import type { SectionReader } from './display'
import type { SourcesApi } from './gateway/api'
import type { Gateway } from './gateway/gateway'
import type { Step } from './gateway/guard/bounded-stop'
import { followsParent, stopped } from './gateway/parent-watch'
import { displayAccess, fragments, mediaTable, Node, pluginTable, sourceTable, ucumUnits } from './index'
import { systemClock } from './lib/clock'
import { asOsError, OsError } from './lib/errors'
import { tightenDirs } from './lib/files'
import { type Logger, silentLogger } from './lib/logger'
import { mapUncaught } from './lib/stacks'
import { turn } from './lib/yield'
import type { Hardware } from './links/hardware'
import { Registry } from './links/registry'
import { TransportControl } from './node/transport'
import { TransporterManager } from './node/transporters'
import {
  GatewayWeb,
  httpPlugins,
  LocalWeb,
  libraryWeb,
  makePlugins,
  managerOf,
  opensPage,
  type Plugins,
} from './services'
import { ROLE_VARIABLE, STRESS_ROLE } from './services/test-plugin/role'
import { firstToken, newToken, storedToken, UserStore } from './services/users'

export * from './index'

if (isMainThread) mapUncaught()

/** The file this runs from: the loopback upstream runs it again. */
const SCRIPT = typeof __filename === 'string' ? __filename : resolve('dist/os-node.js')

const registry = (): Registry => new Registry({ media: mediaTable, sources: sourceTable })

/** Without a gateway: the files alone. */
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

const pluginParts = (logger: Logger) => ({
  builtins: pluginTable,
  version: __VERSION__,
  logger,
  display: displayAccess(),
})

/** The HTTP service where no gateway runs: it brings one with it. */
function localWeb(config: ConfigStore, logger: Logger, signal: AbortSignal): LocalWeb {
  return new LocalWeb({
    config,
    start: (place, stop) =>
      startGateway(config, logger, AbortSignal.any([signal, stop]), () => undefined, 'run', place),
    dashboard: async sections => (await localSections(config, logger)).read(sections ?? null),
  })
}
libraryWeb.of = config => localWeb(config, silentLogger, new AbortController().signal)

/** Names the board to every driver that asks where a pin is, where the configuration does. */
async function chooseBoard({ config }: ConfigStore): Promise<void> {
  if (config.gateway.board !== 'auto') (await import('../drivers/board')).useBoard(config.gateway.board)
}

/** The sections as the files have them. */
async function localSections(config: ConfigStore, logger: Logger): Promise<SectionReader> {
  const { filesSource, getDisplayRegistry, RegistryReader, useDisplaySource } = await import('./display')
  const transport = localTransport(config, logger)
  const log = logOf(config.dataDir)
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
    // somebody may have changed the file since the last look
    config.reload()
    return (local ??= localSections(config, logger))
  })
  const title = (): string => `os-node ${__VERSION__}  ${config.get('device_id')}`.trim()
  const standard = tuiSettings(config.get('RESOURCES.service_plugins.tui'))
  return new TerminalUi(null, { reader, signal, title, standard })
}

/** Pins, lines and buses of this machine with the links that use them, and the newest readings of `gateway`. */
async function hardware({ config }: ConfigStore, gateway?: Gateway): Promise<Hardware> {
  const [{ board, hardwareOf }, { linksAsOpened }] = await Promise.all([
    import('../drivers/board'),
    import('./gateway/guard/check-links'),
  ])
  return hardwareOf(
    board(),
    config.gateway.board !== 'auto',
    await linksAsOpened(config, registry()),
    () => gateway?.latest.own() ?? {},
  )
}

/** GPIO outputs of the configuration, set before anything else; `hold`: until their source opens. */
async function settled(config: ConfigStore, logger: Logger, occasion: 'start' | 'fault', hold: boolean) {
  const entries = config.config.gateway.sources ?? []
  if (!entries.some(({ type }) => type === 'gpio')) return []
  const { settleOutputs } = await import('../drivers/gpio/safe')
  const items = await settleOutputs(entries, occasion, hold)
  for (const { source, name, value, reason } of items)
    if (value !== null) logger.info(`output ${source}.${name} set to ${value} (${occasion})`)
    else if (reason !== 'kept as it is') logger.warn(`output ${source}.${name} not set: ${reason}`)
  return items
}

/** What a machine that configures no source reads. */
const hostDefaults = async (config: ConfigStore) => (await import('../drivers/host')).defaultSources(config.dataDir)

/** A state file that cannot be read lets none in, and ends nothing. */
function readable<T>(logger: Logger, whom: string, read: () => T): T | undefined {
  try {
    return read()
  } catch (thrown) {
    const { message, hint } = asOsError(thrown)
    logger.error(`${message}; until it is mended no ${whom} gets in: ${hint}`)
    return undefined
  }
}

async function startGateway(
  config: ConfigStore,
  logger: Logger,
  signal: AbortSignal,
  stop: () => void,
  role: 'run' | 'serve',
  overrides: StartOverrides,
): Promise<StartedGateway> {
  const [
    { Gateway },
    { acquireLock },
    { checkHardware },
    { startControl },
    web,
    { overHttp, webContext },
    { runRequest, VERBS },
    { JobRunner },
    display,
    { gatewayApi },
    { crashesOf, supervise },
    { runSteps },
    { Unkept },
    { DatabaseManager },
  ] = await Promise.all([
    import('./gateway/gateway'),
    import('./gateway/lock'),
    import('./gateway/hardware-hash'),
    import('./gateway/control'),
    import('./web'),
    import('./web/from-gateway'),
    import('./commands'),
    import('./commands/jobs'),
    import('./display'),
    import('./gateway/api'),
    import('./gateway/guard/process'),
    import('./gateway/guard/bounded-stop'),
    import('./gateway/unsaved'),
    import('./storage'),
  ])
  const unkept = new Unkept(logger.child('data'))
  const lock = unkept.watch(await acquireLock(config.dataDir, role))
  const tightened = tightenDirs(config.dataDir)
  if (tightened > 0) logger.info(`${tightened} folders of data were open to other users; they are 0750 now`)
  const undo: Step[] = [{ name: 'lock', limitMs: 500, must: true, run: () => lock.release() }]
  undo.push({ name: 'disk', limitMs: 100, must: true, run: () => unkept.stop() })
  if (role === 'run') {
    const crashes = crashesOf(config, __VERSION__, logger).look(false).crashes
    const fault = crashes > 0 || process.env.OS_NODE_SAFE_MODE === 'on'
    await settled(config, logger, fault ? 'fault' : 'start', true)
  }
  const undoAll = (): Promise<string[]> => runSteps(undo.reverse(), 20_000, { clock: systemClock, logger })
  const watched = supervise({ config, logger, version: __VERSION__, env: process.env, signal, stop })
  undo.push({ name: 'supervision', limitMs: 1000, must: true, run: () => watched.close() })
  try {
    // scrypt takes tens of milliseconds of its own thread: the log opens and the page answers meanwhile
    const lacksToken = (): boolean => readable(logger, 'token', () => storedToken(config.dataDir)) === null
    const makesToken =
      config.config.web_user.auth_enabled && lacksToken() ? firstToken(config.dataDir, unkept.add) : null
    makesToken?.catch(() => undefined) // told below, unless something else ends the start first
    const links = registry()
    const gateway = await Gateway.open({
      config,
      registry: links,
      units: ucumUnits,
      script: SCRIPT,
      version: __VERSION__,
      builtAt: __BUILT_AT__,
      logger,
      defaultSources: await hostDefaults(config),
      role,
      supervision: watched.supervision,
      unkept,
      ...(role === 'serve' && { listen: { host: overrides.host ?? '0.0.0.0', port: overrides.port ?? 8080 } }),
    })
    undo.push({ name: 'gateway', limitMs: 18_000, must: true, run: () => gateway.stop() })
    watched.rescue(() => gateway.log.flush())
    if (role === 'run') checkHardware(config, logger)
    const node = new Node(null, {
      config,
      logger,
      idAllocator: gateway.ids?.allocator ?? null,
      secureStorePath: null,
      dbManager: gateway.database && new DatabaseManager(config, { database: gateway.database }),
      serviceManager: managerOf(config, logger, displayAccess()),
    })
    undo.push({ name: 'dispatch', limitMs: 1500, run: () => node.close() })
    const unlisten = config.onChange(() => void node.transporterManager.runtimeTick())
    undo.push({ name: 'changes', limitMs: 100, must: true, run: unlisten })
    const transport = new TransportControl({
      config,
      registry: links,
      manager: node.transporterManager,
      hooks: {
        links: () => gateway.supervisor.links(),
        apply: () => gateway.reload(),
        reopen: link => gateway.supervisor.reopen(link),
      },
    })
    const api = gatewayApi(gateway, node, transport)
    const context: CommandContext = {
      version: __VERSION__,
      config,
      logger,
      via: 'gateway',
      signal,
      webUrl: () => service.state().url ?? undefined,
      gateway: api,
      log: logOfGateway(gateway),
      node: async () => nodeLike(node),
      transport: () => transport,
      sources: api.sources,
      hardware: () => hardware(config, gateway),
      display: async () => new display.RegistryReader(display.getDisplayRegistry(), node),
      plugins: async () => plugins,
      safeMode: api.safeMode,
      startGateway: () => Promise.reject(new OsError('LOCKED', 'a gateway runs already')),
      newToken: () => newToken(config.dataDir),
      print: () => undefined,
    }
    const { host: webHost, port: webPort } = config.config.RESOURCES.service_plugins.web_user
    const verifier = new web.TokenVerifier(() => storedToken(config.dataDir))
    const jobs = new JobRunner({
      verbs: VERBS,
      context: { ...context, ...overHttp(api) },
      logger: logger.child('cli'),
    })
    const users = new UserStore({ dataDir: config.dataDir })
    readable(logger, 'user', () => users.list())
    const lan = (): string[] | undefined =>
      overrides.lan ? [lanAddress()].filter(name => name !== undefined) : undefined
    const service = new GatewayWeb({
      host: (role === 'run' ? overrides.host : undefined) ?? webHost,
      port: overrides.webPort ?? webPort,
      make: (host, port) =>
        new web.WebServer(page, {
          host,
          port,
          tls: () => web.webTls(config, text => logger.warn(text), { lan: lan() }),
        }),
      users,
    })
    const plugins = makePlugins({
      ...pluginParts(logger),
      node,
      gateway,
      access: api,
      web: service,
      frozen: watched.frozen,
    })
    undo.push({ name: 'plugins', limitMs: 3000, run: () => plugins.close() })
    watched.spares(thrown => plugins.blame(thrown))
    const page = webContext({
      gateway: api,
      logFailure: () => gateway.log.failure,
      version: __VERSION__,
      logger: logger.child('web'),
      auth: {
        enabled: () => config.get<boolean>('web_user.auth_enabled'),
        verify: given => verifier.verify(given),
        remembered: given => verifier.remembered(given),
        stamp: () => verifier.stamp(),
      },
      users,
      unkept,
      plugins: httpPlugins(plugins),
      jobs,
      display: display.getDisplayRegistry(),
    })
    const plugged = () => plugins.manager.snapshot()
    display.useDisplaySource(display.gatewaySource({ gateway: api, plugins: plugged }))
    display.getDisplayRegistry().defaultNode = node
    if (opensPage(config, gateway)) await service.start().then(turn)
    undo.push({ name: 'web', limitMs: 2500, run: () => service.stop() })
    // ends before the web server: an answer that waits for its command is given
    undo.push({ name: 'jobs', limitMs: 100, must: true, run: () => jobs.stop() })
    const control = await startControl({
      dataDir: config.dataDir,
      run: (request, gone) => runRequest({ ...context, signal: gone }, request),
      logger: logger.child('control'),
    })
    undo.push({ name: 'control', limitMs: 500, run: () => control.close() })
    unkept.write('the lock', () => lock.setSocket(control.path))
    const token = await makesToken
    const { url } = service.state()
    await gateway.start()
    void plugins.startConfigured()
    watched.onHangup(() => gateway.reload())
    return {
      done: stopped(signal).then(async () => {
        logger.info('stopping: draining and committing')
        // a log that could not be committed to the end is what whoever started this must hear of
        return (await undoAll()).includes('gateway') ? new OsError('STORAGE', '').traits.exit : 0
      }),
      info: {
        url,
        device_id: gateway.identity.deviceId,
        ...(token !== null && { token, ...(url !== null && { login_url: loginUrl(url, token) }) }),
      },
      stop,
      transmit: api.transmit,
      // the loopback upstream is told by the banner of its gateway, unless it had to make a token of its own
      banner: followsParent() && token === null ? '' : banner(gateway, role, url, token, overrides),
    }
  } catch (error) {
    // told to whoever started it: no crash (R25)
    if (asOsError(error).code !== 'INTERNAL') watched.supervision.crashes.undo()
    await undoAll()
    throw error
  }
}

async function cli(): Promise<void> {
  const [{ runCli }, { openUrl }, { commandLine }] = await Promise.all([
    import('./cli'),
    import('./cli/browser'),
    import('./commands'),
  ])
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
    context: async ({ config, logger, signal, print }) => {
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
      const { checkLinks, linkProblems } = await import('./gateway/guard/check-links')
      config.lists = async () => ({ 'gateway.sources': await hostDefaults(config) })
      config.approve = next => checkLinks(config.config, next, registry())
      return {
        version: __VERSION__,
        config,
        logger,
        via: 'local',
        linkProblems: () => linkProblems(config.config, registry()),
        signal,
        log: logOf(config.dataDir),
        node: async () => nodeLike(node()),
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
        startGateway: (role, overrides) => startGateway(config, logger, signal, () => stop.abort(), role, overrides),
        openUrl: url => openUrl(url),
        newToken: () => newToken(config.dataDir),
        print,
        close: async () => {
          await plugins?.close()
          await made?.close()
        },
      }
    },
  })
  // what is still open by now (a socket that waits, a timer) must not keep a finished command alive
  setTimeout(() => process.exit(), 2000).unref()
}

const stressChild = (): void =>
  void import('./services/test-plugin/stress/child').then(child => child.runStressChild(SCRIPT))

if (!isMainThread) {
  if (workerData?.role === STRESS_ROLE) stressChild()
} else if (process.send !== undefined && process.env[ROLE_VARIABLE] === STRESS_ROLE) stressChild()
else if (typeof require !== 'undefined' && require.main === module) void cli()
