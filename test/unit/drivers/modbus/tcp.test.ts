// Modbus TCP against a server in this process: an answer counts for its own request only.
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { TcpTransport } from '../../../../drivers/modbus/tcp'
import { HostResolver } from '../../../../src/links/resolve'

test('an answer with the transaction number of an earlier request is counted as late and not taken', async t => {
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket)
    socket.on('data', request => {
      const [high = 0, low = 0, unit = 0] = [request[0], request[1], request[6]]
      const answer = (number: number, value: number): Buffer =>
        Buffer.from([number >> 8, number & 255, 0, 0, 0, 5, unit, 3, 2, 0, value])
      const number = high * 256 + low
      socket.write(Buffer.concat([answer((number + 0xffff) & 0xffff, 7), answer(number, 8)]))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const transport = new TcpTransport({
    host: '127.0.0.1',
    port,
    connectTimeoutMs: 10_000,
    resolver: new HostResolver(),
  })
  t.after(async () => {
    await transport.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await transport.open({ lost: () => undefined, degraded: () => undefined })
  for (const unit of [1, 2, 2]) {
    const answer = await transport.exchange(unit, Uint8Array.of(3, 0, 0, 0, 1), 10_000)
    assert.equal(answer.at(-1), 8, 'the value of this request')
  }
  assert.equal(transport.counters.late, 3)
})
