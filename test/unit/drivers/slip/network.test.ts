// IWIP over the network of this machine: a packet that a board with lwIP receives in one datagram is sent, a larger one is
// refused by name.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HEADERS } from '../../../../drivers/slip/codec'
import { iwipDriver } from '../../../../drivers/slip/index'
import { BoundedMedium } from '../../../../drivers/slip/network'
import { wayTo } from '../../../../drivers/slip/route'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, MediumDriver, PacketHandler, PacketOrigin } from '../../../../src/links/contracts'
import { ManualClock } from '../../../lib/manual'

const MTU = 128
const LARGEST = MTU - HEADERS

/** IWIP on a UDP medium that accepts everything and stores it. */
function iwip() {
  const sent: number[] = []
  const told: string[] = []
  let asked: unknown
  let arrive: PacketHandler = () => undefined
  const udp: MediumDriver = {
    medium: 'UDP',
    schema: {} as MediumDriver['schema'],
    create: (name, options) => {
      asked = options
      return {
        name,
        medium: 'UDP',
        maxPacket: 65_507,
        counters: { rx: 0, tx: 0, errors: 0 },
        onPacket: handler => {
          arrive = handler
        },
        open: async () => undefined,
        close: async () => undefined,
        send: async packet => sent.push(packet.length) > 0,
      }
    },
  }
  const logger = { ...silentLogger, warn: (text: string) => told.push(text) }
  const options = { host: '10.0.0.2', mtu: MTU }
  const medium = iwipDriver(udp).create('board', options, { clock: new ManualClock(), logger })
  const origin: PacketOrigin = {
    medium: 'UDP',
    address: '10.0.0.2:9',
    reply: async packet => sent.push(packet.length) > 0,
  }
  return { medium, sent, told, asked, hear: (packet: Uint8Array) => arrive(packet, origin) }
}

test('the largest packet is sent, a larger one is refused by name and counted, also as an answer', async () => {
  const { medium, sent, told, asked, hear } = iwip()
  assert.equal(medium.maxPacket, LARGEST)
  assert.equal((asked as { max_packet: number }).max_packet, LARGEST)
  const origins: PacketOrigin[] = []
  medium.onPacket((_, origin) => origins.push(origin))
  for (let k = 0; k < 2; k++) hear(Uint8Array.of(9, 0, 1))
  assert.deepEqual([origins[0]!.medium, origins[0]!.address], ['IWIP', '10.0.0.2:9'])
  assert.equal(origins[0], origins[1], 'one for each peer, not for each packet')
  for (const send of [(bytes: Uint8Array) => medium.send(bytes), origins[0]!.reply]) {
    assert.equal(await send(new Uint8Array(LARGEST)), true)
    assert.equal(await send(new Uint8Array(LARGEST + 1)), false)
  }
  assert.deepEqual(sent, [LARGEST, LARGEST])
  assert.deepEqual(told, ['PACKET_TOO_LARGE: 101 bytes, the peer takes 100 in one datagram'])
  assert.deepEqual(medium.counters, { rx: 0, tx: 0, errors: 2, detail: { too_large: 2 } })
})

test('over an interface with a smaller MTU the medium does not open, and says what to do', async () => {
  const way = await wayTo('127.0.0.1', 8080)
  assert.equal(way?.interface, 'lo')
  assert.ok(way.mtu >= 1500, `${way.mtu}`)
  assert.equal(await wayTo('board.example', 8080), null)
  const opened: string[] = []
  const inner = { name: 'board', open: async () => opened.push('open') } as unknown as Medium
  const events = { lost: () => undefined, degraded: () => undefined }
  const over = (mtu: number): Promise<void> =>
    new BoundedMedium(inner, 'IWIP', 1500 - HEADERS, silentLogger, async () => ({ interface: 'wg0', mtu })).open(events)
  await assert.rejects(over(1420), {
    code: 'LINK_DOWN',
    message: 'wg0 takes 1420 bytes in one piece, and mtu is 1500',
    hint: 'say "mtu": 1420 in the options of board',
  })
  assert.deepEqual(opened, [])
  await over(1500)
  assert.deepEqual(opened, ['open'])
})
