// QUIC with a peer that opens its connection by hand: no datagrams, another protocol, a stream that it starts late.
// Needs: openssl quic node24
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { type TestContext, test } from 'node:test'
import { QuicConnection } from '../../../../src/media/quic/connection'
import { type QuicState, quicLibrary } from '../../../../src/media/quic/native'
import { QuicStreams } from '../../../../src/media/quic/stream'
import { bytes, listener, until } from './quic-world'

/** A connection of a peer that accepts no datagrams. */
async function bare(t: TestContext, port: number, protocols = ['os-node']): Promise<QuicConnection> {
  const library = quicLibrary()
  const names = Buffer.concat(protocols.map(name => Buffer.from(`${String.fromCharCode(name.length)}${name}`)))
  const numbers = new Uint8Array(Uint32Array.of(0, 1350, 1e6, 1e5, 0, 0).buffer)
  const config = library.Config.of(false, false, null, null, null, names, numbers, null)
  const socket = createSocket('udp4')
  await new Promise<void>(resolve => socket.connect(port, '127.0.0.1', resolve))
  const local = { host: '127.0.0.1', port: socket.address().port }
  const remote = { host: '127.0.0.1', port }
  const quic = library.Connection.connect('localhost', Buffer.alloc(16, 7), local, remote, config)
  const established = new Promise<QuicConnection>((resolve, reject) => {
    const connection = new QuicConnection(quic, {
      role: 'client',
      transmit: (datagram, _to, free) => socket.send(datagram, free),
      onPacket: packet => packets.push(Buffer.from(packet).toString()),
      onEstablished: resolve,
      onOver: (_connection, reason) => reject(new Error(reason)),
    })
    socket.on('message', message => connection.received(message, remote))
    connection.start()
    t.after(() => {
      connection.close('done')
      socket.close()
    })
  })
  return established
}
const packets: string[] = []

test('to a peer without datagrams each plain packet has its own stream, ended after it and answered there', async t => {
  const server = await listener(t)
  const got: string[] = []
  server.onPacket((packet, origin) => {
    got.push(`${packet.length} ${packet[0]}`)
    void origin.reply(Buffer.from(`answer ${packet.length}`))
  })
  packets.length = 0
  const peer = await bare(t, server.port!)
  for (const length of [3, 40_000, 8])
    assert.equal(await peer.streams.sendPlain(Buffer.concat([Buffer.of(0x3f), bytes(length - 1, 1)])), true)
  await until(() => got.length === 3 && packets.length === 3)
  assert.deepEqual(got.sort(), ['3 63', '40000 63', '8 63'])
  assert.deepEqual(packets.sort(), ['answer 3', 'answer 40000', 'answer 8'])
})

test('a peer that offers another protocol, or none, is refused', async t => {
  const server = await listener(t)
  for (const protocols of [['other'], []]) await assert.rejects(bare(t, server.port!, protocols), /TLS alert 120/)
  await until(() => server.connections === 0)
  assert.equal(server.tally.failed, server.tally.accepted)
})

test("a listener's packets wait until its peer has started the stream; at the end of the connection they count as not sent", async () => {
  const wrote: string[] = []
  let arrived: Buffer | null = null
  const fake = {
    readable: () => [0],
    streamRecv: (_id: number, into: Uint8Array) => {
      if (!arrived) return null
      into.set(arrived)
      const { length } = arrived
      arrived = null
      return [length, false]
    },
    streamSend: (_id: number, chunk: Uint8Array) => {
      wrote.push(Buffer.from(chunk).toString('hex'))
      return chunk.length
    },
  } as unknown as QuicState
  const streams = (): QuicStreams =>
    new QuicStreams(
      fake,
      'server',
      () => assert.fail('the probe is the medium’s own'),
      reason => assert.fail(reason),
    )
  const one = streams()
  const sent = one.send(Buffer.from('abcd', 'hex'))
  assert.deepEqual(wrote, [])
  arrived = Buffer.from('0900014f534e0100', 'hex')
  one.read(new Uint8Array(100), () => undefined)
  assert.deepEqual([wrote, await sent], [['0a00014f534e01000000', '0002abcd'], true])
  const two = streams()
  const never = Array.from({ length: 9 }, () => two.send(Buffer.from('abcd', 'hex')))
  assert.equal(await never[8], false, 'more than a few are refused')
  two.end()
  assert.equal(await never[0], false)
})
