// What the medium of dispatch receives: keys, refusals, requests. A node that only calls transmit and dispatch gets its
// secure session, recovers a receiver that lost its state, and answers requests (X7, X9).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { Node } from '../../../src/index'
import type { Medium, MediumDriver, PacketHandler } from '../../../src/links/contracts'
import { Registry } from '../../../src/links/registry'
import { rekeyFrame } from '../../../src/wire/frame'
import { Bench, commands } from './helper'

const PEER = '10.0.0.7:9000'

/** A medium whose other end is a function. */
function wire(take: (packet: Uint8Array) => Uint8Array | null) {
  const sent: Buffer[] = []
  let handler: PacketHandler = () => undefined
  const answer = async (packet: Uint8Array): Promise<boolean> => {
    sent.push(Buffer.from(packet))
    const response = take(packet)
    if (response) handler(response, { medium: 'UDP', address: PEER, reply: answer })
    return true
  }
  const medium: Medium = {
    name: 'test',
    medium: 'UDP',
    maxPacket: 1400,
    counters: { rx: 0, tx: 0, errors: 0 },
    open: async () => undefined,
    close: async () => undefined,
    send: answer,
    onPacket: to => {
      handler = to
    },
  }
  const driver = { medium: 'UDP', create: () => medium } as unknown as MediumDriver<unknown>
  const tell = (packet: string): void =>
    handler(Buffer.from(packet, 'hex'), { medium: 'UDP', address: PEER, reply: answer })
  return { sent, tell, registry: new Registry({ media: { UDP: async () => driver } }) }
}

const bench = new Bench()
const udp = { RESOURCES: { transport_status: { udp: true } }, Node_Setting: { default_medium: 'UDP' } }
async function send(node: Node, value: number): Promise<void> {
  bench.clock.advance(1000)
  assert.equal(await node.dispatch(node.transmit([['T1', 'OK', value, 'Cel']])[0]), true)
  await Promise.resolve()
}

test('transmit and dispatch alone get a secure session, and a new one when the server lost the key', async () => {
  let server = bench.node('s1', { assigned_id: 900 })
  const values: unknown[] = []
  const { sent, registry } = wire(packet => {
    const { result, response } = server.receiveViaProtocol(packet, 'client:1')
    if (packet[0]! > 0x10) values.push(result['s1_v'] ?? null)
    return response
  })
  const node = bench.node('n1', { assigned_id: 5, ...udp }, { registry })
  for (let k = 0; k < 3; k++) await send(node, k)
  assert.deepEqual(commands(sent), ['3f', 'ab', 'ab'])
  assert.equal(node.security.client.sessions.session(5)?.state, 'SECURE')
  server = bench.node('s1-anew', { assigned_id: 900 })
  for (let k = 3; k < 7; k++) await send(node, k)
  assert.deepEqual(commands(sent.slice(3)).slice(0, 2), ['ab', '3f'])
  assert.equal(node.security.client.sessions.session(5)?.state, 'SECURE')
  assert.deepEqual(values, [273.15, 274.15, 275.15, null, 277.15, 278.15, 279.15])
})

test('requests over the medium are answered; unrequested answers change nothing', async () => {
  const { sent, tell, registry } = wire(() => null)
  const node = bench.node('n2', { assigned_id: 6, ...udp }, { registry })
  await send(node, 1)
  tell('090007')
  tell('0200010000006300000000fa000000')
  tell('0c00010000000efa000000')
  await new Promise(setImmediate)
  assert.deepEqual(
    sent.slice(1).map(packet => packet.toString('hex')),
    ['0a0007'],
  )
  assert.equal(node.assignedId, 6)
  assert.equal(node.protocol.lastServerTime, 0)
})

/** A node with two servers, UDP (the default) and TCP, each with its own wire. */
function twoServers(name: string, config: Record<string, unknown> = {}) {
  const ends = ['UDP', 'TCP'].map((medium, k) => {
    const server = bench.node(`${name}-${medium}`, { assigned_id: 900 + k })
    const packets: Buffer[] = []
    let handler: PacketHandler = () => undefined
    const address = `10.0.0.${k}:9000`
    const reply = async (packet: Uint8Array): Promise<boolean> => {
      packets.push(Buffer.from(packet))
      const { response } = server.receiveViaProtocol(packet, 'client:1')
      if (response) handler(response, { medium, address, reply })
      return true
    }
    const made = {
      ...{ name: 'test', medium, maxPacket: 1400, counters: { rx: 0, tx: 0, errors: 0 } },
      ...{ open: async () => undefined, close: async () => undefined, send: reply },
      onPacket: (to: PacketHandler) => {
        handler = to
      },
    }
    const driver = { medium, create: () => made } as unknown as MediumDriver<unknown>
    return { server, packets, driver, medium }
  })
  const registry = new Registry({
    media: Object.fromEntries(ends.map(({ medium, driver }) => [medium, async () => driver])),
  })
  const RESOURCES = { transport_status: { udp: true, tcp: true } }
  const node = bench.node(name, { assigned_id: 5, RESOURCES, ...config }, { registry })
  const to = (medium: string | null, value: number): Promise<boolean> => {
    bench.clock.advance(1000)
    return node.dispatch(node.transmit([['T1', 'OK', value, 'Cel']])[0], medium)
  }
  return { node, to, udp: ends[0]!, tcp: ends[1]! }
}

test('a session key of one server is never used for packets to another: each has its own', async () => {
  const { node, to, udp, tcp } = twoServers('two')
  for (let k = 0; k < 5; k++) await to(null, k)
  // the other server lacks the template (NEED_FULL), then gives a key
  for (const [k, name] of ['tcp', 'TCP', 'Tcp'].entries()) await to(name, 5 + k)
  await to('UDP', 8)
  assert.deepEqual(commands(udp.packets), ['3f', 'ab', 'ab', 'ab', 'ab', 'ab'])
  assert.deepEqual(commands(tcp.packets), ['aa', '3f', 'ab'], 'plain at first, then under the key of that server')
  const [ofUdp, ofTcp] = [udp, tcp].map(({ server }) => server.security.server.sessions.getSessionKey(5))
  assert.notDeepEqual(ofUdp, ofTcp)
  assert.deepEqual(node.security.client.outboundKey(5), ofUdp)
  for (const packet of tcp.packets) assert.equal(rekeyFrame(packet, ofUdp!, null), null)
  assert.equal(Buffer.from(rekeyFrame(tcp.packets[2]!, ofTcp!, null)!).readUInt8(0), 0xaa)
})

test('with require_secure a packet for one server is not sent to another in plaintext', async () => {
  const { node, to, tcp } = twoServers('two-strict', { security_settings: { require_secure: true } })
  await node.dispatch(node.transmit([])[0])
  assert.equal(await to(null, 1), true)
  assert.equal(await to('TCP', 2), false)
  assert.equal(node.lastError?.code, 'SECURE_REQUIRED')
  assert.deepEqual(tcp.packets, [])
})

test('another host in the configuration is another server: a new key is agreed, an older packet is refused', async () => {
  const { node, to, udp } = twoServers('two-moved')
  await to(null, 1)
  const [packet] = node.transmit([['T1', 'OK', 2, 'Cel']])
  assert.equal(packet[0], 0xab)
  node.store.set('Client_Core.server_host', '192.0.2.99')
  assert.equal(await node.dispatch(packet), false)
  assert.equal(node.lastError?.code, 'BAD_PACKET')
  await to(null, 3)
  assert.deepEqual(
    commands(udp.packets).map(cmd => cmd === 'ab'),
    [false, false],
  )
  const file = join(dirname(node.configPath), 'data/secure_sessions.own.json')
  await node.close()
  assert.match(JSON.parse(readFileSync(file, 'utf8')).peer, /192\.0\.2\.99/)
})
