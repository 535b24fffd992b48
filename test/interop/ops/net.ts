// net: complete nodes, on the named core, that pass packets to each other. `$k` is the packet of step k, `$k.response` its reply.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type * as Library from '../../../src/index'
import {
  type Answer,
  bytes,
  hex,
  type Ops,
  type Request,
  reported,
} from '../../../src/services/test-plugin/vectors/common'

type Lib = typeof Library
type LibraryNode = Library.Node

function newNode(
  lib: Lib,
  path: string,
  core_backend: string,
  given: Request,
  clock: { wall: () => number; mono: () => number },
): LibraryNode {
  const { role = 'duplex', start_id, ...identity } = given
  mkdirSync(path, { recursive: true })
  writeFileSync(
    join(path, 'Config.json'),
    JSON.stringify({
      device_id: 'ORACLE_NODE',
      ...identity,
      engine_settings: {
        ...{ unit_dialect: 'attribute', diff_base: 'last', core_backend },
        tx_batch_enabled: core_backend === 'rscore',
      },
      Node_Setting: { device_role: role },
    }),
  )
  const allocator =
    start_id === undefined
      ? undefined
      : new lib.IdAllocator({ baseDir: path, startId: start_id }, { now: () => Math.floor(clock.wall() / 1000) })
  const node = new lib.Node(join(path, 'Config.json'), { clock, ...(allocator && { idAllocator: allocator }) })
  if (node.coreName !== core_backend) throw new Error(`the node has ${node.coreName}, not ${core_backend}`)
  return node
}

function net(lib: Lib, { nodes: given, steps, core = 'pycore' }: Request, dir: string): Answer {
  let seconds = 1710000000
  const clock = { wall: () => seconds * 1000, mono: () => 0 }
  const nodes = new Map<string, LibraryNode>()
  for (const [name, identity] of Object.entries(given as Record<string, Request>))
    nodes.set(name, newNode(lib, join(dir, name), core, identity, clock))
  const results: unknown[] = []
  const packetOf = (text: string): Buffer => {
    const named = /^\$(\d+)(\.response)?$/.exec(text)
    if (!named) return bytes(text)
    const result = results[Number(named[1])] as Answer
    return bytes(String(named[2] ? result.response : result.packet))
  }
  for (const step of steps as Request[]) {
    if (step.now !== undefined) seconds = step.now
    results.push(run(nodes.get(step.node)!, step, packetOf))
  }
  return { results }
}

const sent = ([packet, aid, strategy]: readonly [Buffer, number, string]): Answer => ({
  packet: hex(packet),
  aid,
  strategy,
})

function run(node: LibraryNode, step: Request, packetOf: (text: string) => Buffer): unknown {
  const { sensors, device_id = null, device_status = 'ONLINE', t, no_timestamp } = step
  const time = { ...(t !== undefined && { t }), ...(no_timestamp && { no_timestamp }) }
  switch (step.do) {
    case 'transmit':
      try {
        // the bytes of single packets come from the same code on both cores, those of a batch from rscore
        if (node.coreName === 'rscore')
          return sent(node.transmitBatch([{ sensors, ...(device_id && { device_id }), device_status, ...time }])[0]!)
        return sent(node.transmit(sensors, device_id, device_status, time))
      } catch (thrown) {
        return { error: 'RuntimeError', msg: reported(thrown).error }
      }
    case 'transmit_batch':
      return node.transmitBatch(step.items, step.common).map(sent)
    case 'dispatch_in': {
      const packet = packetOf(step.packet)
      const { response, type, cmd, result } = node.receiveViaProtocol(packet, step.addr ?? null)
      return { type, cmd, result, response: response && hex(response), packet_in: hex(packet) }
    }
    case 'receive':
      return node.receive(packetOf(step.packet))
    case 'note_server_time':
      node.protocol.noteServerTime(step.ts)
      return null
    case 'session':
      return session(node, step.aid)
    default:
      throw new RangeError(`no step ${step.do}`)
  }
}

/** A node keeps sent and received state apart; the reference has one session per id. */
function session(node: LibraryNode, aid: number): unknown {
  const { client, server } = node.security
  const record = (aid === node.assignedId ? client : server).sessions.session(aid)
  const shown = (value: unknown): unknown => (value instanceof Uint8Array ? hex(value) : value)
  return record && Object.fromEntries(Object.entries(record).map(([key, value]) => [key, shown(value)]))
}

export const netOps: Ops<Lib> = { net }
