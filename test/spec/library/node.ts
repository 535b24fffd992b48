// Specification, "Node operations (library)", "Node attributes", "Transmit result", "Errors".
import assert from 'node:assert/strict'
import { Node as SourceNode } from '../../../src/index'
import { NodeBase } from '../../../src/node/node'
import { until } from '../../lib/gateway'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorParameters, parameters, sameParameters } from '../signature'
import { library, type Node, newNode, ROWS, T, theServer } from '../world'

const result = is.tuple(is.bytes, is.integer, is.oneOf('FULL_PACKET', 'DIFF_PACKET'))
const meta = is.record({
  cmd: is.integer,
  base_cmd: is.integer,
  secure: is.boolean,
  source_aid: is.integer,
  crc16_ok: is.exactly(true),
  crc8_ok: is.exactly(true),
  timestamp_raw: is.integer,
  tid: is.string,
  template_learned: is.boolean,
})
export const decoded = is.record({
  id: is.string,
  s: is.string,
  t: is.integer,
  s1_id: is.string,
  s1_v: is.number,
  s1_u: is.string,
  __packet_meta__: meta,
})

interface Operation {
  readonly name: string
  readonly method: keyof NodeBase
  readonly parameters: readonly string[]
  readonly returns: is.Shape
  call(node: Node): unknown
  readonly config?: object
}

/** A node whose request to a server is recorded and never answered. */
async function asked(act: (node: Node) => Promise<unknown>, config: object = {}): Promise<unknown[]> {
  const calls: unknown[][] = []
  const node = newNode(config, {
    request: async (host, port, _packet, timeoutMs) => {
      calls.push([host, port, timeoutMs])
      return null
    },
  })
  // the loop runs to its own time-out, which the row does not need to wait for
  void act(node)
  await until('a request', () => calls.length > 0)
  return calls[0]!
}

const UNASSIGNED = { assigned_id: 4294967295 }

/** The packet contains the input. */
function saysAll<Result extends readonly [Uint8Array, ...unknown[]]>(node: Node, result: Result): Result {
  const { id, s, t } = node.receive(result[0])
  assert.deepEqual([id, s, t], ['B', 'IDLE', T])
  return result
}

const OPERATIONS: readonly Operation[] = [
  {
    name: 'ensure_id',
    method: 'ensureId',
    parameters: ['serverIp', 'serverPort', 'deviceMeta = null', 'timeout = 5'],
    returns: is.exactly(true),
    config: UNASSIGNED,
    call: async node => {
      const got = await node.ensureId('127.0.0.1', (await theServer()).port)
      assert.ok(node.assignedId > 0 && node.assignedId < 4294967295)
      const again = new library.Node(node.configPath)
      assert.equal(again.assignedId, node.assignedId, 'the id is in Config.json')
      await again.close()
      return got
    },
  },
  {
    name: 'ensure_time',
    method: 'ensureTime',
    parameters: ['serverIp = null', 'serverPort = null', 'timeout = 3'],
    returns: is.integer,
    call: async node => node.ensureTime('127.0.0.1', (await theServer()).port),
  },
  {
    name: 'transmit',
    method: 'transmit',
    parameters: ['sensors', 'deviceId = null', "deviceStatus = 'ONLINE'"],
    returns: result,
    call: node => saysAll(node, node.transmit(ROWS, 'B', 'IDLE', { t: T })),
  },
  {
    name: 'transmit_fast',
    method: 'transmitFast',
    parameters: ['sensors = []', 'deviceId = null', "deviceStatus = 'ONLINE'"],
    returns: result,
    call: node => saysAll(node, node.transmitFast(ROWS, 'B', 'IDLE', { t: T })),
  },
  {
    name: 'transmit_batch',
    method: 'transmitBatch',
    parameters: ['batchItems'],
    returns: is.listOf(result),
    call: node => {
      const packets = node.transmitBatch([{ sensors: ROWS }, { sensors: ROWS, device_id: 'B', t: T + 1 }], { t: T })
      assert.deepEqual(
        packets.map(([packet]) => [node.receive(packet).id, node.receive(packet).t]),
        [
          ['DEV', T],
          ['B', T + 1],
        ],
        'the values of an item override the common ones',
      )
      return packets
    },
  },
  {
    name: 'dispatch',
    method: 'dispatch',
    parameters: ['packet', 'medium = null'],
    returns: is.exactly(true),
    call: async node => {
      const server = await theServer()
      node.store.set('Client_Core.server_port', server.port)
      assert.equal(await node.dispatch('Grüße', 'UDP'), true)
      const before = server.heard.length
      await node.ensureTime('127.0.0.1', server.port)
      assert.ok(
        server.heard.slice(0, before + 1).some(packet => packet.equals(Buffer.from('Grüße'))),
        'strings are UTF-8',
      )
      return node.dispatch(node.transmit(ROWS)[0])
    },
  },
  {
    name: 'dispatch_with_reply',
    method: 'dispatchWithReply',
    parameters: ['packet', 'serverIp = null', 'serverPort = null', 'timeout = 3'],
    returns: is.bytes,
    call: async node => node.dispatchWithReply(Buffer.of(0x09, 0, 1), '127.0.0.1', (await theServer()).port),
  },
  {
    name: 'receive',
    method: 'receive',
    parameters: ['rawBytes'],
    returns: decoded,
    call: node => node.receive(node.transmit(ROWS)[0]),
  },
  {
    name: 'receive_via_protocol',
    method: 'receiveViaProtocol',
    parameters: ['rawBytes', 'addr = null'],
    returns: is.record({ type: is.exactly('CTRL'), cmd: is.exactly(0x09), response: is.bytes }),
    call: node => node.receiveViaProtocol(Buffer.of(0x09, 0, 1)),
  },
  {
    name: 'relay',
    method: 'relay',
    parameters: ['packet'],
    returns: is.bytes,
    call: node => {
      const packets = [1, 2, 3, 4].map(k => node.transmit([['T1', 'OK', k, 'Cel']])[0])
      const facts = packets.map(packet => node.receive(packet))
      const relayed = node.relay(packets[3]!)
      assert.deepEqual([packets[3]![0], relayed[0]], [0xaa, 0x3f], 'a DIFF is forwarded as a FULL')
      assert.equal(node.receive(relayed).s1_v, facts[3]!.s1_v)
      return relayed
    },
  },
]

const operation = ({ name, method, parameters: wanted, returns, call, config }: Operation): Row => ({
  name,
  observe: async () => {
    sameParameters(parameters(NodeBase.prototype[method] as never), wanted, name)
    returns(await call(newNode(config)), name)
  },
})

/** name of the specification's table → ours, its shape */
const ATTRIBUTES: readonly [name: string, ours: string, shape: is.Shape][] = [
  ['config', 'config', is.dict],
  ['config_path', 'configPath', is.string],
  ['base_dir', 'baseDir', is.string],
  ['assigned_id', 'assignedId', is.exactly(7)],
  ['device_id', 'deviceId', is.exactly('DEV')],
  ['standardizer', 'standardizer', is.object],
  ['engine', 'engine', is.object],
  ['fusion', 'fusion', is.object],
  ['protocol', 'protocol', is.object],
  ['id_allocator', 'idAllocator', is.object],
  ['transporter_manager', 'transporterManager', is.object],
  ['active_transporters', 'activeTransporters', is.dictOf(is.object)],
  ['service_manager', 'serviceManager', is.object],
  ['db_manager', 'dbManager', is.object],
]

/** Unavailable items answer as the specification's table of errors says. */
const ERRORS: readonly Row[] = [
  {
    name: 'transmit without an id is an error that names ensure_id',
    observe: () =>
      assert.throws(
        () => newNode(UNASSIGNED).transmit(ROWS),
        (error: Error & { code?: string }) => {
          assert.ok(error instanceof Error && error.code === 'NO_ASSIGNED_ID')
          return /no assigned physical ID.*ensure_id/.test(error.message)
        },
      ),
  },
  {
    name: 'dispatch without a driver: false, No available driver: <medium>',
    observe: async () => {
      const node = newNode()
      is.exactly(false)(await node.dispatch('x', 'Pigeon'))
      assert.equal(node.lastError?.message, 'No available driver: Pigeon')
    },
  },
  {
    name: 'ensure_id that fails is false, ensure_time and dispatch_with_reply none',
    observe: async () => {
      const node = newNode(UNASSIGNED)
      is.exactly(false)(await node.ensureId('127.0.0.1', 1, null, 0.05))
      is.none(await node.ensureTime('127.0.0.1', 1, 0.05))
      is.none(await node.dispatchWithReply(Buffer.of(0x09, 0, 1), '127.0.0.1', 1, 0.05))
    },
  },
]

const DEFAULTS: readonly Row[] = [
  {
    name: 'ensure_id waits 5.0 s',
    observe: async () =>
      assert.deepEqual(await asked(node => node.ensureId('192.0.2.7', 4000), UNASSIGNED), ['192.0.2.7', 4000, 5000]),
  },
  {
    name: 'ensure_time and dispatch_with_reply ask the configured server and wait 3.0 s',
    observe: async () => {
      const config = { Client_Core: { server_host: '192.0.2.8', server_port: 4001 } }
      assert.deepEqual(await asked(node => node.ensureTime(), config), ['192.0.2.8', 4001, 3000])
      const reply = await asked(node => node.dispatchWithReply(Buffer.of(9, 0, 1)), config)
      assert.deepEqual(reply, ['192.0.2.8', 4001, 3000])
    },
  },
  {
    name: 'ensure_id sends device_meta; a timeout that is given counts',
    observe: async () => {
      const calls: { packet: Uint8Array; timeoutMs: number }[] = []
      const node = newNode(UNASSIGNED, {
        request: async (_host, _port, packet, timeoutMs) => {
          calls.push({ packet, timeoutMs })
          return null
        },
      })
      void node.ensureId('192.0.2.7', 4000, { note: 'mine' }, 0.5)
      await until('a request', () => calls.length > 0)
      const [{ packet, timeoutMs }] = calls as [(typeof calls)[0]]
      assert.equal(timeoutMs, 500)
      assert.equal(JSON.parse(Buffer.from(packet.subarray(3)).toString()).note, 'mine')
      const time = await asked(asking => asking.ensureTime('192.0.2.7', 4000, 0.5))
      const reply = await asked(asking => asking.dispatchWithReply(Buffer.of(9, 0, 1), '192.0.2.7', 4000, 0.5))
      assert.deepEqual(
        [time, reply],
        [
          ['192.0.2.7', 4000, 500],
          ['192.0.2.7', 4000, 500],
        ],
      )
    },
  },
  {
    name: 'transmit: device_id falls back to the node, device_status to ONLINE, t to now',
    observe: () => {
      const node = newNode()
      const { id, s, t } = node.receive(node.transmit(ROWS)[0])
      assert.deepEqual([id, s], ['DEV', 'ONLINE'])
      assert.ok(Math.abs(Number(t) - Date.now() / 1000) < 60)
    },
  },
  {
    name: 'the strategy is FULL_PACKET until three packets were sent, then DIFF_PACKET',
    observe: () => {
      const node = newNode()
      const names = [1, 2, 3, 4, 5].map(k => node.transmit([['T1', 'OK', k, 'Cel']])[2])
      assert.deepEqual(names, ['FULL_PACKET', 'FULL_PACKET', 'FULL_PACKET', 'DIFF_PACKET', 'DIFF_PACKET'])
    },
  },
]

/** Of the native core. */
const NATIVE: readonly Row[] = [
  {
    name: 'get_last_batch_metrics',
    pending: 'getLastBatchMetrics',
    observe: () => {
      const node = newNode({ engine_settings: { core_backend: 'rscore', tx_batch_enabled: true } })
      node.transmitBatch([{ sensors: ROWS }, { sensors: ROWS }])
      is.record({ count: is.exactly(2), stage_timing_ms: is.dictOf(is.number) })(node.getLastBatchMetrics())
    },
  },
  {
    name: 'get_last_dispatch_path',
    pending: 'getLastDispatchPath',
    observe: async () => {
      const node = newNode({ engine_settings: { core_backend: 'rscore' } })
      const { getLastDispatchPath } = node as unknown as { getLastDispatchPath(): unknown }
      is.oneOf('ffi', 'driver', 'none')(getLastDispatchPath.call(node))
    },
  },
]

export const nodeTables: readonly Table[] = [
  {
    title: 'Node: operations',
    rows: [
      {
        name: 'Node(config_path)',
        observe: async () => {
          sameParameters(constructorParameters(SourceNode), ['configPath = null'], 'Node')
          const node = new library.Node(null)
          is.string(node.configPath)
          await node.close()
        },
      },
      ...OPERATIONS.map(operation),
      ...DEFAULTS,
      ...ERRORS,
      ...NATIVE,
    ],
  },
  {
    title: 'Node: attributes',
    rows: ATTRIBUTES.map(([name, ours, shape]) => ({
      name,
      observe: () => {
        const node = newNode() as unknown as Record<string, unknown>
        shape(node[name], name)
        assert.deepEqual(node[ours], node[name])
      },
    })),
  },
]
