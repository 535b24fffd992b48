// Specification, "Configuration keys": which medium, whether it may be used, the options of its driver, plugins.
import assert from 'node:assert/strict'
import type { DriverContext, Medium } from '../../../src/links/contracts'
import { MEDIA, Registry } from '../../../src/links/registry'
import { freePort, until } from '../../lib/gateway'
import type { Row } from '../rows'
import { library, type Node, newNode, quietGateway, Server } from '../world'
import { type Key, keyRow, nested } from './key'

/** A node whose media only record their options and packets. */
export function fakeMedia(content: object, send: (packet: Uint8Array) => boolean = () => true) {
  const told: Record<string, unknown>[] = []
  const sent: Uint8Array[] = []
  const create = (name: string, options: Record<string, unknown>, _context: DriverContext): Medium => {
    told.push(options)
    return {
      name,
      medium: name,
      counters: { rx: 0, tx: 0, errors: 0 },
      maxPacket: 1000,
      acknowledges: false,
      open: async () => undefined,
      close: async () => undefined,
      onPacket: () => undefined,
      send: async packet => {
        sent.push(packet)
        return send(packet)
      },
    } as Medium
  }
  const driver = (medium: string) => async () => ({ medium, create: create as never })
  const media = Object.fromEntries(MEDIA.map(({ name }) => [name, driver(name)]))
  const registry = new Registry({ media: media as never })
  return { node: newNode(content, { registry: registry as never }), told, sent }
}

const SECTION: Record<string, string> = {
  application_config: 'application_status',
  transport_config: 'transport_status',
  physical_config: 'physical_status',
}

/** The options of a medium's driver; `standard`: the specification's default. */
const told = (
  section: string,
  medium: string,
  option: string,
  value: unknown,
  bad: unknown,
  range: RegExp,
  standard?: unknown,
): Key => {
  const key = `RESOURCES.${section}.${medium}.${option}`
  return {
    key,
    ...(standard !== undefined && { standard }),
    value,
    bad,
    range,
    effect: async () => {
      const on = { [SECTION[section]!]: { [medium]: true } }
      const config = { RESOURCES: { ...on, ...(nested(key, value).RESOURCES as object) } }
      const { node, told: options } = fakeMedia(config)
      assert.equal(await node.dispatch('x', medium), true, node.lastError?.message)
      assert.deepEqual(options[0]![option], value)
    },
  }
}

const flag = (section: string, medium: string, standard: boolean): Key => ({
  key: `RESOURCES.${section}.${medium}`,
  standard,
  value: !standard,
  bad: 'yes',
  range: /true or false/,
  effect: async () => {
    for (const on of [true, false]) {
      const { node } = fakeMedia({ RESOURCES: { [section]: { [medium]: on } } })
      assert.equal(node.transporterManager.getDriver(medium) !== null, on, `${medium} ${on}`)
      assert.equal(await node.dispatch('x', medium), on)
      if (!on) assert.match(node.lastError!.message, /^No available driver: /)
    }
  },
})

const PORT = /whole number 0–65535/
const RATE = /whole number 50–12000000/

const KEYS: readonly Key[] = [
  {
    key: 'Node_Setting.default_medium',
    value: 'TCP',
    bad: 5,
    range: /a text/,
    effect: async () => {
      for (const [medium, sends] of [
        ['UDP', true],
        ['TCP', false],
      ] as const) {
        const { node } = fakeMedia({ Node_Setting: { default_medium: medium } })
        assert.equal(await node.dispatch('x'), sends)
        if (!sends) assert.equal(node.lastError?.message, `No available driver: ${medium}`)
      }
    },
  },
  flag('application_status', 'mqtt', false),
  ...['udp', 'tcp', 'quic', 'iwip', 'uip'].map(medium => flag('transport_status', medium, medium === 'udp')),
  ...['uart', 'rs485', 'can', 'lora', 'bluetooth'].map(medium => flag('physical_status', medium, false)),
  told('transport_config', 'udp', 'host', '192.0.2.4', 4, /a text/),
  {
    ...told('transport_config', 'udp', 'port', 4004, 65_536, PORT),
    effect: async () => {
      const [server, other] = [await Server.start(), await Server.start()]
      for (const to of [server, other]) {
        const node = newNode({ RESOURCES: { transport_config: { udp: { host: '127.0.0.1', port: to.port } } } })
        assert.equal(await node.dispatch('hello'), true)
        await until('a packet', () => to.heard.length > 0)
        assert.deepEqual(to.heard.map(String), ['hello'])
      }
    },
  },
  told('transport_config', 'tcp', 'host', '192.0.2.5', false, /a text/),
  told('transport_config', 'tcp', 'port', 4005, -1, PORT, 8888),
  told('transport_config', 'quic', 'host', '192.0.2.6', null, /a text/),
  told('transport_config', 'quic', 'port', 4434, 65_536, PORT, 4433),
  told('application_config', 'mqtt', 'host', 'broker.lan', 1, /a text/),
  told('application_config', 'mqtt', 'port', 1884, 70_000, PORT, 1883),
  told('transport_config', 'iwip', 'host', '192.0.2.7', 7, /a text/),
  told('transport_config', 'iwip', 'port', 4006, 65_536, PORT),
  told('transport_config', 'uip', 'host', '192.0.2.8', 8, /a text/),
  told('transport_config', 'uip', 'port', 4007, -1, PORT),
  told('physical_config', 'can', 'interface', 'can1', 1, /the name of an interface/),
  told('physical_config', 'lora', 'spi', '/dev/spidev0.1', 0, /a text/),
  told('physical_config', 'uart', 'port', '/dev/ttyS9', 9, /a text/),
  told('physical_config', 'uart', 'baudrate', 9600, 49, RATE),
  told('physical_config', 'rs485', 'port', '/dev/ttyS8', true, /a text/),
  told('physical_config', 'rs485', 'baudrate', 19_200, 12_000_001, RATE),
  told('physical_config', 'bluetooth', 'port', 5455, 65_536, PORT, 5454),
]

interface Web {
  start(host?: string | null, port?: number | null): Promise<boolean>
  stop(): Promise<boolean>
  status(): { url: string; host: string; port: number }
}

/** The HTTP service of a node, for as long as `act` takes. */
export async function served(
  content: object,
  act: (url: string, node: Node) => unknown,
  place: [string?, number?] = ['127.0.0.1', 0],
): Promise<void> {
  const node = newNode({ ...quietGateway, ...content })
  const web = (await library.ensureAndMountPlugin(node, 'web_user', true)) as never as Web
  assert.equal(await web.start(...place), true)
  try {
    await act(web.status().url, node)
  } finally {
    await web.stop()
  }
}

const plugins = (name: string, settings: object) => ({ RESOURCES: { service_plugins: { [name]: settings } } })

const PLUGINS: readonly Key[] = [
  {
    key: 'RESOURCES.service_plugins.web_user.port',
    standard: 8765,
    value: 9001,
    bad: 65_536,
    range: PORT,
    effect: async () => {
      const port = await freePort()
      await served(plugins('web_user', { port }), url => assert.equal(url, `http://127.0.0.1:${port}`), [])
    },
  },
  {
    key: 'RESOURCES.service_plugins.web_user.host',
    standard: '127.0.0.1',
    value: '0.0.0.0',
    bad: 0,
    range: /a text/,
    effect: async () => {
      const port = await freePort()
      await served(
        plugins('web_user', { host: '127.0.0.2', port }),
        async url => {
          assert.equal(url, `http://127.0.0.2:${port}`)
          assert.equal((await fetch(`${url}/health`)).status, 200)
        },
        [],
      )
    },
  },
  {
    key: 'RESOURCES.service_plugins.env_guard.enabled',
    standard: true,
    value: false,
    bad: 'no',
    range: /true or false/,
    effect: async () => {
      await library.ensureAndMountPlugin(newNode(plugins('env_guard', { enabled: true })), 'env_guard')
      await assert.rejects(
        library.ensureAndMountPlugin(newNode(plugins('env_guard', { enabled: false })), 'env_guard'),
        { code: 'FORBIDDEN' },
      )
    },
  },
]

export const mediaRows: readonly Row[] = [...KEYS, ...PLUGINS].map(keyRow)
