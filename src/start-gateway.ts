// Starts a gateway and its user interfaces: connects the rooms with each other. Rooms that only a gateway needs are
// loaded here, on first use.
//
// Errors at a start: an unusable data directory (DATA_DIR), another gateway on it (LOCKED), a port in use (PORT_BUSY):
// everything opened so far is closed in reverse order. Every later fault is a state, and so is a failing disk (R30).
import { forgetOldState } from './backup/settle'
import type { CommandContext, StartedGateway, StartOverrides } from './commands'
import { logOfGateway } from './commands/adapters'
import { banner } from './commands/banner'
import { lanAddress, loginUrl } from './commands/login'
import type { ConfigStore } from './config'
import { GatewayCores } from './cores'
import type { GatewayApi } from './gateway/api'
import type { Gateway } from './gateway/gateway'
import type { StopStep } from './gateway/guard/bounded-stop'
import type { Watched } from './gateway/guard/process'
import type { DataLock } from './gateway/lock'
import { followsParent, stopped } from './gateway/parent-watch'
import type { Unkept } from './gateway/unsaved'
import { displayAccess, Node, ucumUnits } from './index'
import { systemClock } from './lib/clock'
import { counted } from './lib/counted'
import { asOsError, OsError } from './lib/errors'
import { tightenDirs } from './lib/files'
import type { Logger } from './lib/logger'
import { yieldToLoop } from './lib/yield'
import type { Registry } from './links/registry'
import { hardware, hostDefaults, pluginParts, registry, SCRIPT, settled } from './machine'
import { TransportControl } from './node/transport'
import { GatewayWeb, httpPlugins, makePlugins, managerOf, opensPage, type Plugins } from './services'
import { firstToken, newToken, storedToken, UserStore } from './services/users'
import type { WebContext } from './web/context'
import type { FromGatewayOptions } from './web/from-gateway'

/** An unreadable state file admits no one, but does not end the program. */
function readable<T>(logger: Logger, whom: string, read: () => T): T | undefined {
  try {
    return read()
  } catch (thrown) {
    const { message, hint } = asOsError(thrown)
    logger.error(`${message}; no ${whom} is accepted until it is repaired: ${hint}`)
    return undefined
  }
}

interface StartRequest {
  readonly config: ConfigStore
  readonly logger: Logger
  readonly signal: AbortSignal
  /** ends the process like Ctrl-C */
  readonly stop: () => void
  readonly role: 'run' | 'serve'
  readonly overrides: StartOverrides
}

/** The data directory and what watches this process, and how to close everything opened so far. */
interface Opened extends StartRequest {
  readonly lock: DataLock
  readonly unkept: Unkept
  readonly watched: Watched
  readonly undo: StopStep[]
}

/** Takes the data directory, sets the outputs, and starts the watchdog. */
async function takeData(request: StartRequest): Promise<Opened> {
  const { config, logger, role, signal, stop } = request
  const [{ acquireLock }, { crashesOf, supervise }, { Unkept }] = await Promise.all([
    import('./gateway/lock'),
    import('./gateway/guard/process'),
    import('./gateway/unsaved'),
  ])
  const unkept = new Unkept(logger.child('data'))
  const lock = unkept.watch(await acquireLock(config.dataDir, role))
  config.lastGood?.by(write => unkept.write('the last good configuration', write))
  const tightened = tightenDirs(config.dataDir)
  if (tightened > 0) logger.info(`${counted(tightened, 'data folder')} closed to other users: mode is 0750 now`)
  const undo: StopStep[] = [{ name: 'lock', limitMs: 500, must: true, run: () => lock.release() }]
  undo.push({ name: 'disk', limitMs: 100, must: true, run: () => unkept.stop() })
  if (role === 'run') {
    const crashes = crashesOf(config, __VERSION__, logger).look(false).crashes
    const fault = crashes > 0 || process.env.OS_NODE_SAFE_MODE === 'on'
    await settled(config, logger, fault ? 'fault' : 'start', true)
  }
  const watched = supervise({ config, logger, version: __VERSION__, env: process.env, signal, stop })
  undo.push({ name: 'supervision', limitMs: 1000, must: true, run: () => watched.close() })
  return { ...request, unkept, lock, watched, undo }
}

/** The gateway, with its links not open yet. */
async function openGateway(opened: Opened, links: Registry, cores: GatewayCores) {
  const { config, logger, overrides, role, undo, unkept, watched } = opened
  const [{ Gateway }, { adviseOn }, { checkHardware }] = await Promise.all([
    import('./gateway/gateway'),
    import('./gateway/guard/check-links'),
    import('./gateway/hardware-hash'),
  ])
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
    cores,
    ...(role === 'run' && overrides.host !== undefined && { pageHost: overrides.host }),
    ...(role === 'serve' && { listen: { host: overrides.host ?? '0.0.0.0', port: overrides.port ?? 8080 } }),
  })
  adviseOn(config, links)
  undo.push({ name: 'gateway', limitMs: 18_000, must: true, run: () => gateway.stop() })
  watched.rescue = () => gateway.log.flush()
  if (role === 'run') checkHardware(config, logger)
  return gateway
}

/** The node for packets outside the gateway's uplinks, and the interface of the gateway for all following parts. */
async function nodeOf({ config, logger, undo }: Opened, gateway: Gateway, links: Registry) {
  const [{ gatewayApi }, { DatabaseManager }] = await Promise.all([import('./gateway/api'), import('./storage')])
  const node = new Node(null, {
    config,
    logger,
    idAllocator: gateway.ids && 'allocator' in gateway.ids ? gateway.ids.allocator : null,
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
  return { node, api: gatewayApi(gateway, node, transport) }
}

/** Parts created later than those that use them. */
interface Later {
  page?: WebContext
  service?: GatewayWeb
  plugins?: Plugins
}

/** Commands inside the gateway: over its socket and over HTTP. */
async function commandsOf(
  { config, logger, signal }: Opened,
  node: Node,
  api: GatewayApi,
  later: Later,
): Promise<CommandContext> {
  const { getDisplayRegistry, RegistryReader } = await import('./display')
  return {
    version: __VERSION__,
    config,
    logger,
    via: 'gateway',
    signal,
    webUrl: () => later.service!.state().url ?? undefined,
    gateway: api,
    log: logOfGateway(config.dataDir, api.log),
    node: async () => node,
    transport: () => api.transport,
    sources: api.sources,
    hardware: () => hardware(config, api.ownValues),
    display: async () => new RegistryReader(getDisplayRegistry(), node),
    plugins: async () => later.plugins!,
    safeMode: api.safeMode,
    startGateway: () => Promise.reject(new OsError('LOCKED', 'a gateway runs already')),
    newToken: () => newToken(config.dataDir),
    print: () => undefined,
  }
}

/** The web server; it does not listen yet. */
async function serviceOf({ config, logger, overrides, role }: Opened, users: UserStore, later: Later) {
  const { WebServer, webTls } = await import('./web')
  const lan = (): string[] | undefined =>
    overrides.lan ? [lanAddress()].filter(name => name !== undefined) : undefined
  const { host: webHost, port: webPort } = config.config.RESOURCES.service_plugins.web_user
  const tls = () => webTls(config, text => logger.warn(text), { lan: lan() })
  const redirectPort = () => config.get<number>('web_user.redirect_port')
  return new GatewayWeb({
    host: (role === 'run' ? overrides.host : undefined) ?? webHost,
    port: overrides.webPort ?? webPort,
    make: (host, port) => new WebServer(later.page!, { host, port, tls, redirectPort }),
    users,
  })
}

/** What the web server shows and changes. */
async function pageOf(
  { config, logger, stop, unkept }: Opened,
  api: GatewayApi,
  parts: Pick<FromGatewayOptions, 'users' | 'jobs' | 'plugins' | 'display'>,
): Promise<WebContext> {
  const [{ TokenVerifier }, { webContext }] = await Promise.all([import('./web'), import('./web/from-gateway')])
  const verifier = new TokenVerifier(() => storedToken(config.dataDir))
  return webContext({
    ...parts,
    gateway: api,
    config,
    version: __VERSION__,
    logger: logger.child('web'),
    auth: {
      enabled: () => config.get<boolean>('web_user.auth_enabled'),
      verify: token => verifier.verify(token),
      remembered: token => verifier.remembered(token),
      stamp: () => verifier.stamp(),
    },
    unkept,
    stop,
  })
}

/** Commands, page, plugins and display. */
async function facesOf(opened: Opened, node: Node, api: GatewayApi) {
  const { config, logger, undo, watched } = opened
  const [{ overHttp }, { VERBS }, { JobRunner }, display] = await Promise.all([
    import('./web/from-gateway'),
    import('./commands'),
    import('./commands/jobs'),
    import('./display'),
  ])
  const later: Later = {}
  const context = await commandsOf(opened, node, api, later)
  const remote = { ...context, ...overHttp(config, api.transport) }
  const jobs = new JobRunner({ verbs: VERBS, context: remote, logger: logger.child('cli') })
  const users = new UserStore({ dataDir: config.dataDir })
  readable(logger, 'user', () => users.list())
  const service = await serviceOf(opened, users, later)
  const plugins = makePlugins({ ...pluginParts(logger), node, gateway: api, web: service, frozen: watched.frozen })
  undo.push({ name: 'plugins', limitMs: 3000, run: () => plugins.close() })
  watched.spares = thrown => plugins.blame(thrown)
  const sections = display.getDisplayRegistry()
  const page = await pageOf(opened, api, { users, jobs, plugins: httpPlugins(plugins), display: sections })
  Object.assign(later, { page, service, plugins })
  display.useDisplaySource(display.gatewaySource({ gateway: api, config, plugins: () => plugins.manager.snapshot() }))
  sections.defaultNode = node
  return { context, jobs, plugins, service }
}

/** The control socket, by which the command line reaches this gateway. */
async function openControl({ config, lock, logger, undo, unkept }: Opened, context: CommandContext): Promise<void> {
  const [{ startControl }, { runRequest }] = await Promise.all([import('./gateway/control'), import('./commands')])
  const control = await startControl({
    dataDir: config.dataDir,
    run: (request, watch) => runRequest({ ...context, ...watch }, request),
    logger: logger.child('control'),
  })
  undo.push({ name: 'control', limitMs: 500, run: () => control.close() })
  unkept.write('the lock', () => lock.setSocket(control.path))
}

/** The admin token of the first start; null: one exists already, or none is needed. */
async function tokenOf({ config, logger, unkept }: Opened): Promise<string | null> {
  const needed = config.config.web_user.auth_enabled
  const lacking = needed && readable(logger, 'token', () => storedToken(config.dataDir)) === null
  return lacking ? firstToken(config.dataDir, unkept.add) : null
}

/** What the person who started the gateway reads, and the same for scripts. */
function introduced({ config, overrides, role }: Opened, api: GatewayApi, url: string | null, token: string | null) {
  const summary = api.summary()
  return {
    info: {
      url,
      device_id: summary.deviceId,
      ...(token !== null && { token, ...(url !== null && { login_url: loginUrl(url, token) }) }),
    },
    // the banner of its gateway includes the local upstream, unless it had to make its own token
    banner: followsParent() && token === null ? '' : banner(summary, config, role, url, token, overrides),
  }
}

/** Opens the gateway with everything that belongs to it; its links are opened last. */
async function openAll(opened: Opened): Promise<Pick<StartedGateway, 'info' | 'banner' | 'transmit'>> {
  const { config, logger, undo, watched } = opened
  // scrypt takes tens of milliseconds on a separate thread: meanwhile the log opens and the page answers
  const makesToken = tokenOf(opened)
  makesToken.catch(() => undefined) // awaited below, unless another error ends the start first
  const links = registry()
  const cores = new GatewayCores(logger)
  const gateway = await openGateway(opened, links, cores)
  const { node, api } = await nodeOf(opened, gateway, links)
  const { context, jobs, plugins, service } = await facesOf(opened, node, api)
  if (opensPage(config, api)) await service.start().then(yieldToLoop)
  undo.push({ name: 'web', limitMs: 2500, run: () => service.stop() })
  // ends before the web server, so that pending answers of commands are still sent
  undo.push({ name: 'jobs', limitMs: 100, must: true, run: () => jobs.stop() })
  await openControl(opened, context)
  const token = await makesToken
  const { url } = service.state()
  await gateway.start()
  cores.choose(config.dataDir, `${__VERSION__} ${__BUILT_AT__}`)
  forgetOldState(config.dataDir, logger)
  void plugins.startConfigured()
  watched.hangup = () => gateway.reload()
  return { ...introduced(opened, api, url, token), transmit: api.transmit }
}

/** Runs until `signal` aborts. Throws LOCKED, PORT_BUSY, DATA_DIR … if it cannot start. */
export async function startGateway(request: StartRequest): Promise<StartedGateway> {
  const { logger, signal, stop } = request
  const { runSteps } = await import('./gateway/guard/bounded-stop')
  const opened = await takeData(request)
  const undoAll = (): Promise<string[]> => runSteps(opened.undo.reverse(), 20_000, { clock: systemClock, logger })
  try {
    const started = await openAll(opened)
    const done = stopped(signal).then(async () => {
      logger.info('stopping: draining and committing')
      // a log whose last records could not be committed is an error for the process that started this
      return (await undoAll()).includes('gateway') ? new OsError('STORAGE', '').traits.exit : 0
    })
    return { ...started, done, stop }
  } catch (error) {
    // reported to the process that started it: not a crash (R25)
    if (asOsError(error).code !== 'INTERNAL') opened.watched.supervision.crashes.undo()
    await undoAll()
    throw error
  }
}
