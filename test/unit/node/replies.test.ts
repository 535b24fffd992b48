// What comes back by the medium of dispatch: keys, refusals, requests. A node that only calls transmit and dispatch gets its
// secure session, mends a receiver that forgot, and answers who asks it (X7, X9).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Node } from '../../../src/index'
import type { Medium, MediumDriver, PacketHandler } from '../../../src/links/contracts'
import { Registry } from '../../../src/links/registry'
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

test('transmit and dispatch alone get a secure session, and a new one when the server forgot it', async () => {
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

test('who asks over the medium is answered; answers to nothing asked change nothing', async () => {
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
