// Specification, "Transporter manager", "Transporter media", "Core manager".
import assert from 'node:assert/strict'
import { CoreManager, TransporterManager } from '../../../src/index'
import { MEDIA } from '../../../src/links/registry'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorParameters, parameters, sameParameters } from '../signature'
import { library, newNode } from '../world'

const driver = is.record({ name: is.string })

const media: readonly [name: string, layer: string, port: unknown, key: string][] = [
  ['UDP', 'L4', 8080, 'transport_options.port'],
  ['TCP', 'L4', 8888, 'transport_options.port'],
  ['QUIC', 'L4', 4433, 'transport_options.port'],
  ['MQTT', 'application', 1883, 'application_config.mqtt'],
  ['UART', 'L1', null, 'physical_config.uart'],
  ['RS485', 'L1', null, 'physical_config.rs485'],
  ['CAN', 'L1', null, 'physical_config.can'],
  ['LoRa', 'L1', null, 'physical_config.lora'],
  ['Bluetooth', 'L1', 5454, 'physical_config.bluetooth'],
  ['IWIP', 'L4', null, 'transport_config.iwip'],
  ['UIP', 'L4', null, 'transport_config.uip'],
]

type Cores = InstanceType<typeof library.CoreManager>
type Method = keyof Cores

const CORES: readonly [name: Method, parameters: readonly string[], returns: is.Shape, given: readonly unknown[]][] = [
  ['discoverCores', [], is.object, []],
  ['availableCores', [], is.listOf(is.string), []],
  ['setConfig', ['config'], is.anything, [{}]],
  ['setConfigPath', ['configPath'], is.anything, ['Config.json']],
  ['setActiveCore', ['name'], is.anything, ['pycore']],
  ['getActiveCoreName', [], is.exactly('pycore'), []],
  ['loadCore', ['name = null'], is.object, []],
  ['listSymbols', ['name = null'], is.listOf(is.string), []],
  ['getSymbol', ['symbolName', 'name = null'], is.anything, ['Node']],
  ['createNode', ['configPath = null', 'name = null'], is.object, []],
]

const core = ([name, wanted, returns, given]: (typeof CORES)[number]): Row => ({
  name: `CoreManager.${name}`,
  observe: () => {
    sameParameters(parameters(CoreManager.prototype[name] as never), wanted, name)
    const manager = new library.CoreManager()
    returns((manager[name] as (...given: unknown[]) => unknown).apply(manager, [...given]), name)
  },
})

export const coreTables: readonly Table[] = [
  {
    title: 'Transporter manager',
    rows: [
      {
        name: 'constructed with the node',
        observe: async () => {
          assert.equal(constructorParameters(TransporterManager).length, 2, 'the node, and options of our own')
          const manager = new library.TransporterManager(newNode())
          driver(manager.getDriver('udp'))
          await manager.close()
        },
      },
      {
        name: 'auto_load',
        observe: () => {
          const loaded = newNode({ RESOURCES: { transport_status: { tcp: true } } }).transporterManager.autoLoad()
          is.dictOf(driver)(loaded)
          assert.deepEqual(Object.keys(loaded).sort(), ['TCP', 'UDP'])
        },
      },
      {
        name: 'get_driver',
        observe: () => {
          sameParameters(parameters(TransporterManager.prototype.getDriver), ['medium'], 'getDriver')
          const { transporterManager } = newNode()
          driver(transporterManager.getDriver('UDP'))
          is.none(transporterManager.getDriver('TCP'))
          is.none(transporterManager.getDriver('Pigeon'))
        },
      },
      {
        name: 'refresh_protocol',
        observe: () => {
          sameParameters(parameters(TransporterManager.prototype.refreshProtocol), ['medium'], 'refreshProtocol')
          const { transporterManager } = newNode()
          const before = transporterManager.getDriver('UDP')
          const fresh = transporterManager.refreshProtocol('UDP')
          driver(fresh)
          assert.notEqual(fresh, before)
          is.none(transporterManager.refreshProtocol('TCP'))
        },
      },
      {
        name: 'runtime_tick',
        observe: () => {
          const node = newNode()
          const { transporterManager } = node
          transporterManager.autoLoad()
          is.exactly(false)(transporterManager.runtimeTick())
          node.store.set('RESOURCES.transport_config.udp.port', 4000)
          is.exactly(true)(transporterManager.runtimeTick())
        },
      },
    ],
  },
  {
    title: 'Transporter media',
    rows: media.map(([name, layer, port, key]) => ({
      name,
      observe: () => {
        const found = MEDIA.find(medium => medium.name === name)
        assert.ok(found, name)
        assert.deepEqual([found.layer, found.config_key], [layer, key])
        if (port !== null) assert.equal(found.default_port, port)
        const status = `${found.section.replace(/_config$/, '_status')}`
        const node = newNode({ RESOURCES: { [status]: { [name.toLowerCase()]: true } } })
        driver(node.transporterManager.getDriver(name))
      },
    })),
  },
  {
    title: 'Core manager',
    rows: [
      {
        name: 'constructor',
        observe: () =>
          sameParameters(
            constructorParameters(CoreManager),
            ["basePackage = 'os-node.cores'", "defaultCore = 'pycore'"],
            'CoreManager',
          ),
      },
      ...CORES.map(core),
    ],
  },
  {
    title: 'Native core',
    rows: [
      {
        name: 'rscore',
        observe: async () => {
          const node = newNode({ engine_settings: { core_backend: 'rscore' } })
          const runner = (await library.ensureAndMountPlugin(node, 'test_plugin', true)) as never as {
            runStress(...given: unknown[]): Promise<[object, number]>
          }
          const [, fail] = await runner.runStress(10, 1, 1, false, 'rscore', true)
          assert.equal(fail, 0)
        },
      },
    ],
  },
]
