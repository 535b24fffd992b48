// Starts a gateway and its user interfaces: connects the rooms with each other. Rooms that only a gateway needs are
// loaded here, on first use.
//
// Errors at a start: an unusable data directory (DATA_DIR), another gateway on it (LOCKED), a port in use (PORT_BUSY):
// everything opened so far is closed in reverse order. Every later fault is a state, and so is a failing disk (R30).
import { resolve } from 'node:path'
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
import { displayAccess, mediaTable, Node, pluginTable, sourceTable, ucumUnits } from './index'
import { systemClock } from './lib/clock'
import { counted } from './lib/counted'
import { asOsError, OsError } from './lib/errors'
import { tightenDirs } from './lib/files'
import type { Logger } from './lib/logger'
import { yieldToLoop } from './lib/yield'
import type { Hardware } from './links/hardware'
import { Registry } from './links/registry'
import { TransportControl } from './node/transport'
import { GatewayWeb, httpPlugins, makePlugins, managerOf, opensPage, type Plugins } from './services'
import { firstToken, newToken, storedToken, UserStore } from './services/users'

/** This program's file: the loopback upstream runs it again. */
export const SCRIPT = typeof __filename === 'string' ? __filename : resolve('dist/os-node.js')

export const registry = (): Registry => new Registry({ media: mediaTable, sources: sourceTable })

export const pluginParts = (logger: Logger) => ({
  builtins: pluginTable,
  version: __VERSION__,
  logger,
  display: displayAccess(),
})

/** Pins, lines and buses of this machine with the links that use them, and the newest readings of `gateway`. */
export async function hardware({ config }: ConfigStore, gateway?: Gateway): Promise<Hardware> {
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

/** Sets the GPIO outputs of the configuration before anything else; `hold`: until their source opens. */
export async function settled(config: ConfigStore, logger: Logger, occasion: 'start' | 'fault', hold: boolean) {
  const entries = config.config.gateway.sources ?? []
  if (!entries.some(({ type }) => type === 'gpio')) return []
  const { settleOutputs } = await import('../drivers/gpio/safe')
  const items = await settleOutputs(entries, occasion, hold)
  for (const { source, name, value, reason } of items)
    if (value !== null) logger.info(`output ${source}.${name} set to ${value} (${occasion})`)
    else if (reason !== 'kept as it is') logger.warn(`output ${source}.${name} not set: ${reason}`)
  return items
}

/** The sources of a machine that configures none. */
export const hostDefaults = async (config: ConfigStore) =>
  (await import('../drivers/host')).defaultSources(config.dataDir)

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

/** Everything opened so far, and how to close it. */
interface Opened extends StartRequest {
  readonly unkept: Unkept
  readonly watched: Watched
  readonly undo: StopStep[]
}

/** Takes the data directory, sets the outputs, and starts the watchdog. */
async function takeData(request: StartRequest): Promise<Opened & { lock: DataLock }> {
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

/** The node for packets outside the gateway's uplinks, and the view of the gateway for all following parts. */
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

/** Parts created later than the commands that use them. */
interface Later {
  service?: GatewayWeb
  plugins?: Plugins
}

/** Commands inside the gateway: over its socket and over HTTP. */
async function commandsOf(
  { config, logger, signal }: Opened,
  gateway: Gateway,
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
    log: logOfGateway(gateway),
    node: async () => node,
    transport: () => api.transport,
    sources: api.sources,
    hardware: () => hardware(config, gateway),
    display: async () => new RegistryReader(getDisplayRegistry(), node),
    plugins: async () => later.plugins!,
    safeMode: api.safeMode,
    startGateway: () => Promise.reject(new OsError('LOCKED', 'a gateway runs already')),
    newToken: () => newToken(config.dataDir),
    print: () => undefined,
  }
}

/** The page and the plugins; the page does not listen yet. */
async function facesOf(opened: Opened, gateway: Gateway, node: Node, api: GatewayApi) {
  const { config, logger, overrides, role, undo, unkept, watched } = opened
  const [web, { overHttp, webContext }, { VERBS }, { JobRunner }, display] = await Promise.all([
    import('./web'),
    import('./web/from-gateway'),
    import('./commands'),
    import('./commands/jobs'),
    import('./display'),
  ])
  const later: Later = {}
  const context = await commandsOf(opened, gateway, node, api, later)
  const verifier = new web.TokenVerifier(() => storedToken(config.dataDir))
  const jobs = new JobRunner({ verbs: VERBS, context: { ...context, ...overHttp(api) }, logger: logger.child('cli') })
  const users = new UserStore({ dataDir: config.dataDir })
  readable(logger, 'user', () => users.list())
  const lan = (): string[] | undefined =>
    overrides.lan ? [lanAddress()].filter(name => name !== undefined) : undefined
  const { host: webHost, port: webPort } = config.config.RESOURCES.service_plugins.web_user
  const tls = () => web.webTls(config, text => logger.warn(text), { lan: lan() })
  const redirectPort = () => config.get<number>('web_user.redirect_port')
  const service = new GatewayWeb({
    host: (role === 'run' ? overrides.host : undefined) ?? webHost,
    port: overrides.webPort ?? webPort,
    make: (host, port) => new web.WebServer(page, { host, port, tls, redirectPort }),
    users,
  })
  const plugins = makePlugins({
    ...pluginParts(logger),
    ...{ node, gateway, access: api, web: service, frozen: watched.frozen },
  })
  Object.assign(later, { service, plugins })
  undo.push({ name: 'plugins', limitMs: 3000, run: () => plugins.close() })
  watched.spares = thrown => plugins.blame(thrown)
  const page = webContext({
    gateway: api,
    logFailure: () => gateway.log.failure,
    version: __VERSION__,
    logger: logger.child('web'),
    auth: {
      enabled: () => config.get<boolean>('web_user.auth_enabled'),
      verify: token => verifier.verify(token),
      remembered: token => verifier.remembered(token),
      stamp: () => verifier.stamp(),
    },
    users,
    unkept,
    stop: opened.stop,
    plugins: httpPlugins(plugins),
    jobs,
    display: display.getDisplayRegistry(),
  })
  display.useDisplaySource(display.gatewaySource({ gateway: api, plugins: () => plugins.manager.snapshot() }))
  display.getDisplayRegistry().defaultNode = node
  return { context, jobs, plugins, service }
}

/** The control socket, by which the command line reaches this gateway. */
async function openControl({ config, logger, undo }: Opened, context: CommandContext): Promise<string> {
  const [{ startControl }, { runRequest }] = await Promise.all([import('./gateway/control'), import('./commands')])
  const control = await startControl({
    dataDir: config.dataDir,
    run: (request, watch) => runRequest({ ...context, ...watch }, request),
    logger: logger.child('control'),
  })
  undo.push({ name: 'control', limitMs: 500, run: () => control.close() })
  return control.path
}

/** Runs until `signal` aborts. Throws LOCKED, PORT_BUSY, DATA_DIR … if it cannot start. */
export async function startGateway(request: StartRequest): Promise<StartedGateway> {
  const { config, logger, overrides, role, signal, stop } = request
  const { runSteps } = await import('./gateway/guard/bounded-stop')
  const opened = await takeData(request)
  const { lock, undo, unkept, watched } = opened
  const undoAll = (): Promise<string[]> => runSteps(undo.reverse(), 20_000, { clock: systemClock, logger })
  try {
    // scrypt takes tens of milliseconds on a separate thread: meanwhile the log opens and the page answers
    const lacksToken = (): boolean => readable(logger, 'token', () => storedToken(config.dataDir)) === null
    const makesToken =
      config.config.web_user.auth_enabled && lacksToken() ? firstToken(config.dataDir, unkept.add) : null
    makesToken?.catch(() => undefined) // awaited below, unless another error ends the start first
    const links = registry()
    const cores = new GatewayCores(logger)
    const gateway = await openGateway(opened, links, cores)
    const { node, api } = await nodeOf(opened, gateway, links)
    const { context, jobs, plugins, service } = await facesOf(opened, gateway, node, api)
    if (opensPage(config, gateway)) await service.start().then(yieldToLoop)
    undo.push({ name: 'web', limitMs: 2500, run: () => service.stop() })
    // ends before the web server, so that pending answers of commands are still sent
    undo.push({ name: 'jobs', limitMs: 100, must: true, run: () => jobs.stop() })
    const path = await openControl(opened, context)
    unkept.write('the lock', () => lock.setSocket(path))
    const token = await makesToken
    const { url } = service.state()
    await gateway.start()
    cores.choose(config.dataDir, `${__VERSION__} ${__BUILT_AT__}`)
    forgetOldState(config.dataDir, logger)
    void plugins.startConfigured()
    watched.hangup = () => gateway.reload()
    return {
      done: stopped(signal).then(async () => {
        logger.info('stopping: draining and committing')
        // a log whose last records could not be committed is an error for the process that started this
        return (await undoAll()).includes('gateway') ? new OsError('STORAGE', '').traits.exit : 0
      }),
      info: {
        url,
        device_id: gateway.identity.deviceId,
        ...(token !== null && { token, ...(url !== null && { login_url: loginUrl(url, token) }) }),
      },
      stop,
      transmit: api.transmit,
      // the banner of its gateway includes the loopback upstream, unless it had to make its own token
      banner: followsParent() && token === null ? '' : banner(gateway, role, url, token, overrides),
    }
  } catch (error) {
    // reported to the process that started it: not a crash (R25)
    if (asOsError(error).code !== 'INTERNAL') watched.supervision.crashes.undo()
    await undoAll()
    throw error
  }
}
