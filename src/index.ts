// The library: the exports of 'os-node'. The rooms are connected here, so that each class works without further parts,
// with the units of units/ and the media of media/.
import { resolve as resolvePath } from 'node:path'
import { bluetoothOptions } from '../drivers/bluetooth/bluetooth-options'
import { canOptions } from '../drivers/can/can-options'
import { loraOptions } from '../drivers/lora/lora-options'
import { rs485Options } from '../drivers/rs485/rs485-options'
import { iwipOptions, uipOptions } from '../drivers/slip/slip-options'
import { uartOptions } from '../drivers/uart/uart-options'
import { checkLibrary } from './arguments'
import type { Fragment } from './config'
import { BareCoreManager, CORE_NAMES, coreProblem, createCore } from './cores'
import { DisplayProvider, getDisplayRegistry, providerOf } from './display'
import { badArgument, checkArgument, checkNames, namesOf } from './lib/checked'
import type { SourceDriver } from './links/contracts'
import { type DriverTable, Registry } from './links/registry'
import { FlashLog } from './log'
import { type MediaOptions, mediaFragments } from './media/fragments'
import { NodeBase, type NodeOptions, type NodeParts } from './node/node'
import { TransporterManager as BareTransporters, type TransporterManagerOptions } from './node/transporters'
import type { CoreSettings } from './node/types'
import { Engine as BareEngine, type EngineOptions } from './pipeline/compress'
import type { Core } from './pipeline/core'
import { Fusion as BareFusion, type FusionOptions } from './pipeline/fuse'
import type { PureCoreOptions } from './pipeline/pycore'
import { Standardizer } from './pipeline/standardize'
import type { UnitResolver, WireUnits } from './pipeline/wireunit'
import { HandshakeManager } from './protocol/handshake/manager'
import { IdAllocator } from './protocol/ids/allocator'
import {
  BUILTIN_NAMES,
  type DisplayAccess,
  libraryWeb,
  type PluginHost,
  Plugins,
  type PluginTable,
  pluginFragments,
  ServiceManager,
} from './services'
import { selfTest } from './services/self-test'
import type { Inventory } from './services/test-plugin/audit/inventory'
import { DatabaseManager } from './storage'
import { attributeUnits } from './units/attribute'
import { resolve, resolveList } from './units/canonical'
import { wireUnits } from './units/wire'

/** Unit expressions and unit words on the wire, from units/. */
export const ucumUnits: UnitResolver & WireUnits = { ...wireUnits(), resolve, resolveList }

const ENGINE = namesOf<EngineOptions>()('precision unitDialect units clock')

/** Fact dict ↔ Base62 text (specification, "Pipeline components"). `configPath` null: defaults. */
export class Engine extends BareEngine {
  constructor(configPath: string | null = null, options: EngineOptions = {}) {
    checkArgument('new Engine', 'configPath text?', configPath)
    checkNames('new Engine', options, ENGINE)
    super(configPath, { units: ucumUnits, ...options })
  }
}

const FUSION = namesOf<FusionOptions>()(
  'precision unitDialect units clock engine localId registryDir files keys policy maxTid maxBytes',
)

/** Base62 text ↔ binary packet (specification, "Pipeline components"). `configPath` null: defaults. */
export class Fusion extends BareFusion {
  constructor(configPath: string | null = null, options: FusionOptions = {}) {
    checkArgument('new Fusion', 'configPath text?', configPath)
    checkNames('new Fusion', options, FUSION)
    super(configPath, { units: ucumUnits, ...options })
  }
}

/** Configuration keys of the media in drivers/: their option files, which load no driver. */
export const busOptions: MediaOptions = {
  UART: uartOptions,
  RS485: rs485Options,
  CAN: canOptions,
  LoRa: loraOptions,
  Bluetooth: bluetoothOptions,
  IWIP: iwipOptions,
  UIP: uipOptions,
}

/** Media by name, loaded on first use. */
export const mediaTable = {
  UDP: async () => (await import('./media/udp')).udpDriver,
  TCP: async () => (await import('./media/tcp')).tcpDriver,
  QUIC: async () => (await import('./media/quic')).quicDriver,
  MQTT: async () => (await import('./media/mqtt')).mqttDriver,
  UART: async () => (await import('../drivers/uart')).uartDriver,
  RS485: async () => (await import('../drivers/rs485')).rs485Driver,
  CAN: async () => (await import('../drivers/can')).canDriver,
  LoRa: async () => (await import('../drivers/lora')).loraDriver,
  Bluetooth: async () => (await import('../drivers/bluetooth')).bluetoothDriver,
  IWIP: async () => (await import('../drivers/slip')).iwipDriver((await import('./media/udp')).udpDriver),
  UIP: async () => (await import('../drivers/slip')).uipDriver,
}

/** The types of one room. */
const types = <Type extends string>(names: readonly Type[], load: (type: Type) => Promise<SourceDriver>) =>
  Object.fromEntries(names.map(type => [type, () => load(type)]))

/** Sources by type, loaded on first use. */
export const sourceTable: DriverTable<SourceDriver> = {
  ...types(
    ['cpu', 'memory', 'disk', 'network', 'uptime', 'thermal', 'hwmon', 'iio'],
    async type => (await import('../drivers/host')).hostSources[type],
  ),
  gpio: async () => (await import('../drivers/gpio')).gpioDriver,
  ...types(
    ['bme280', 'sht3x', 'ads1115', 'ina219', 'ds3231'],
    async type => (await import('../drivers/i2c')).i2cSources[type],
  ),
  w1: async () => (await import('../drivers/host/w1')).w1Source,
  can: async () => (await import('../drivers/can/signals/signal-source')).canSource,
  line: async () => (await import('../drivers/lines')).lineSource,
  nmea: async () => (await import('../drivers/lines')).nmeaSource,
  modbus_rtu: async () => (await import('../drivers/modbus')).modbusRtu,
  modbus_tcp: async () => (await import('../drivers/modbus')).modbusTcp,
  ...types(
    ['bthome', 'ibeacon', 'eddystone', 'ruuvi'],
    async type => (await import('../drivers/bluetooth')).advertisementSources[type],
  ),
}

/** Configuration keys beyond those that every gateway knows. */
export const fragments = (): Fragment[] => [...mediaFragments(busOptions), ...pluginFragments()]

/** This program's file: processes, threads and the SQL worker run it again. */
const SCRIPT = typeof __filename === 'string' ? __filename : resolvePath('dist/os-node.js')

/** Names of everything that the audit of the plugin test_plugin must find tested. */
export async function inventory(): Promise<Inventory> {
  const [{ ROUTES }, { VERBS }, { rows }, { assemble }, { inventoryOf }] = await Promise.all([
    import('./web/routes'),
    import('./commands'),
    import('./config/describe'),
    import('./config/schema'),
    selfTest(SCRIPT),
  ])
  const keys = rows(assemble(fragments()))
  const services = new ServiceManager()
  for (const name of BUILTIN_NAMES) {
    // created only for the names of its commands; never started
    const host = { name, dataDir: '', settings: () => ({}) } as unknown as PluginHost
    services.mount(name, await (await pluginTable[name]!()).create(host))
  }
  return inventoryOf({
    ...{ routes: ROUTES, commands: VERBS, keys, plugins: BUILTIN_NAMES },
    plugin_commands: services.collectCliCommands(),
  })
}

/** Built-in plugins by name, loaded on first use. */
export const pluginTable: PluginTable = {
  web_user: async () => (await import('./services/web-user')).webUserPlugin,
  tui: async () => (await import('./tui')).tuiPlugin,
  port_forwarder: async () => (await import('./services/port-forwarder')).portForwarderPlugin,
  env_guard: async () => (await import('./services/env-guard')).envGuardPlugin,
  dependency_manager: async () => (await import('./services/dependencies')).dependencyPlugin,
  test_plugin: async () => {
    const { testPlugin } = await selfTest(SCRIPT)
    return testPlugin({ script: SCRIPT, library: { Node, Engine, Fusion }, inventory, terminal: process.stderr })
  },
}

/** The display room for plugins, which are on the same floor. */
export function displayAccess(): DisplayAccess {
  const registry = getDisplayRegistry()
  return {
    DisplayProvider,
    register: provider => registry.register(providerOf(provider) as DisplayProvider),
    unregister: provider => {
      const { plugin_name, section_id } = provider as DisplayProvider
      registry.unregister(plugin_name, section_id)
    },
    metadata: () => ({ ...registry.metadata() }),
    renderSection: async (section, format) => ({ ...(await registry.render(section, format)) }),
    collectAllSections: format => registry.collect(format),
  }
}

/** The plugins of a library node without a service manager. */
function ownServices(node: NodeBase): ServiceManager {
  const display = displayAccess()
  const manager = new ServiceManager(node.store, 'runtime', { display })
  const web = libraryWeb.of?.(node.store)
  new Plugins({ manager, node, builtins: pluginTable, version: __VERSION__, display, ...(web && { web }) })
  return manager
}

const parts = (): NodeParts => ({
  fragments,
  services: ownServices,
  database: ({ store }, log) =>
    store.config.storage.sql.enabled ? new DatabaseManager(store, log instanceof FlashLog ? { log } : {}) : null,
  registry: new Registry({ media: mediaTable }),
  request: async (host, port, packet, timeoutMs, accept, onFailure) =>
    (await import('./media/udp')).request(host, port, packet, timeoutMs, accept, { onFailure }),
  createCore: settings => coreFor(settings, settings.store.config.engine_settings.core_backend),
})

/** A core as the configuration of a node specifies it. */
function coreFor({ store, clock, logger }: CoreSettings, name: string): Core {
  const { engine_settings: engine, payload_switches } = store.config
  const attribute = engine.unit_dialect === 'attribute'
  const options: PureCoreOptions = {
    resolver: attribute ? attributeUnits : ucumUnits,
    units: ucumUnits,
    unitDialect: engine.unit_dialect,
    sensorIds: !attribute || payload_switches.SensorId,
    clock,
    precision: engine.precision,
    registryDir: null,
    policy: {
      diffBase: engine.diff_base,
      fullEvery: engine.diff_base === 'last' ? 0 : engine.full_every,
      fullIntervalMs: engine.diff_base === 'last' ? 0 : engine.full_interval_seconds * 1000,
    },
  }
  return createCore(name, options, problem => (logger ? logger.warn(problem) : process.emitWarning(problem)))
}

const NODE = namesOf<NodeOptions>()(
  'registry request createCore fragments services database config clock logger log idAllocator secureStorePath',
  'serviceManager dbManager',
)

/** A node (specification, "Node operations"). `configPath` null: as the CLI finds it, else the defaults. */
export class Node extends NodeBase {
  constructor(configPath: string | null = null, options: NodeOptions = {}) {
    checkArgument('new Node', 'configPath text?', configPath)
    checkNames('new Node', options, NODE)
    super(configPath, parts(), options)
    // sections that are rendered without a node use this one
    getDisplayRegistry().defaultNode = this
  }
}

/** The core manager's exports of a core: the library's classes, nodes on that core, and the core itself. */
const packageOf = (name: string): Record<string, unknown> & { readonly name: string } => ({
  name,
  Node: class extends Node {
    constructor(configPath: string | null = null, options: NodeOptions = {}) {
      super(configPath, { createCore: settings => coreFor(settings, name), ...options })
    }
  },
  createCore: (options: Partial<PureCoreOptions> = {}): Core =>
    createCore(name, { resolver: ucumUnits, units: ucumUnits, registryDir: null, ...options }, problem =>
      process.emitWarning(problem),
    ),
  ...{
    DatabaseManager,
    Engine,
    Fusion,
    HandshakeManager,
    IdAllocator,
    ServiceManager,
    Standardizer,
    TransporterManager,
  },
})

/** The core manager (specification, "Core manager"). Throws NOT_FOUND for a core that is not in this build. */
export class CoreManager extends BareCoreManager<Node> {
  constructor(basePackage = 'os-node.cores', defaultCore = 'pycore') {
    checkArgument('new CoreManager', 'basePackage text', basePackage)
    checkArgument('new CoreManager', 'defaultCore text', defaultCore)
    super(basePackage, defaultCore, {
      cores: Object.fromEntries(CORE_NAMES.map(name => [name, () => packageOf(name)])),
      problem: coreProblem,
      node: (configPath, name) =>
        new Node(configPath, name === null ? {} : { createCore: settings => coreFor(settings, name) }),
    })
  }
}

const MEDIA = namesOf<TransporterManagerOptions>()('config registry clock logger timers onPacket context')

/**
 * The media of a node as a separate object (specification, "Transporter manager"); `node.transporterManager` is the
 * node's own.
 */
export class TransporterManager extends BareTransporters {
  constructor(node: NodeBase, options: Partial<TransporterManagerOptions> = {}) {
    if (!(node instanceof NodeBase)) throw badArgument('new TransporterManager', 'node', 'a Node', node)
    checkNames('new TransporterManager', options, MEDIA)
    super({ config: node.store, registry: new Registry({ media: mediaTable }), ...options })
  }
}

export {
  type DisplayFormat,
  DisplayProvider,
  DisplayRegistry,
  getDisplayRegistry,
  type SectionData,
} from './display'

checkLibrary(Node, BareEngine, BareFusion, BareTransporters, BareCoreManager)

export * from './checked-exports'
export { createNativeChecks } from './cores'
export { UNASSIGNED as UNASSIGNED_ID } from './lib/assigned-id'
export { type ErrorCode, OsError } from './lib/errors'
export type { Files } from './lib/files'
export { FlashLog, type FlashLogOptions, LogFiles, type LogRecord, type LogSource } from './log'
export type { NodeOptions } from './node/node'
export type { BatchItem, BatchMetrics, DispatchPath, TransmitOptions, TransmitResult } from './node/types'
export type { Core, RejectedRow, Strategy } from './pipeline/core'
export type { Fact, FactDict, Reading, SensorFact } from './pipeline/fact'
export type { FusionOptions, SessionKeys } from './pipeline/fuse'
export type { PureCoreOptions } from './pipeline/pycore'
export type { PacketMeta } from './pipeline/receive'
export type { DecodedPacket } from './pipeline/received'
export type { Received, ReceiverOptions } from './pipeline/receiver'
export type { EncodedFrame, UplinkEncoderOptions } from './pipeline/sender'
export { Standardizer } from './pipeline/standardize'
export type { UnitDialect, UnitResolver, WireUnits } from './pipeline/wireunit'
export {
  type DispatchResult,
  type HandshakeDeps,
  HandshakeManager,
  type HandshakeOptions,
  type StrictSecurity,
} from './protocol/handshake/manager'
export {
  type AllocatorStats,
  IdAllocator,
  type IdAllocatorDeps,
  type IdAllocatorOptions,
} from './protocol/ids/allocator'
export type { LeaseMetrics, LeasePolicy } from './protocol/ids/lease'
export type { SecureClientOptions } from './protocol/secure/client'
export type { SecureServerOptions } from './protocol/secure/server'
export type { SecureSessionsOptions, SessionRecord } from './protocol/secure/sessions'
export {
  type CliHandler,
  type DisplayAccess,
  type GatewayAccess,
  listBuiltinPlugins,
  type PluginDefinition,
  type PluginHost,
  type Service,
  ServiceManager,
} from './services'
export {
  DatabaseManager,
  type DatabaseManagerOptions,
  type DeviceList,
  type HistoryList,
  type PacketDetail,
  type PacketList,
  type SensorList,
} from './storage'
export { TerminalUi, type TuiOptions, type TuiSnapshot as Snapshot } from './tui'
export { COMMAND } from './wire/commands'
export type { EngineOptions }
