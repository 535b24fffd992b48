// Modbus TCP against a server in this process: an answer counts for its own request only.
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { TcpTransport } from '../../../../drivers/modbus/tcp'
import type { OsError } from '../../../../src/lib/errors'
import { HostResolver } from '../../../../src/links/resolve'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, Trace } from '../../../lib/trace'

test('an answer with the transaction number of an earlier request is counted as late and dropped', async t => {
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

test('a connection whose server is late, silent, wrong or gone behaves as recorded', async t => {
  const trace = new Trace('unit/drivers/modbus/tcp-trace.txt')
  const { below, chance, pick } = dice(67)
  const timers = new ManualTimers(new ManualClock())
  const sockets = new Set<Socket>()
  let asked = (): void => undefined
  let how = ''
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('data', async request => {
      const [high = 0, low = 0, unit = 0] = [request[0], request[1], request[6]]
      const answer = (before: number, protocol = 0): Buffer => {
        const number = (high * 256 + low - before) & 0xffff
        return Buffer.from([number >> 8, number & 255, 0, protocol, 0, 5, unit, 3, 2, how.length, low])
      }
      if (how === 'whole') socket.write(answer(0))
      if (how === 'late') socket.write(Buffer.concat([answer(1), answer(2), answer(0)]))
      if (how === 'many') socket.write(Buffer.concat([...Array.from({ length: 60 }, () => answer(3)), answer(0)]))
      if (how === 'odd') socket.write(answer(0, 9))
      if (how === 'gone') socket.destroy()
      if (how === 'cut') {
        socket.write(answer(0).subarray(0, 4))
        await new Promise(resolve => setTimeout(resolve, 2))
        socket.write(answer(0).subarray(4))
      }
      asked()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const said: unknown[] = []
  const events = { lost: (why: string) => said.push(why.replace(`${port}`, '')), degraded: () => undefined }
  const failed = ({ code, message, hint }: OsError): void =>
    void said.push([code, message.replace(`${port}`, ''), hint])
  const options = { host: '127.0.0.1', port, connectTimeoutMs: 10_000, resolver: new HostResolver(), timers }
  const transport = new TcpTransport(options)
  await transport.exchange(1, Uint8Array.of(3, 0, 0, 0, 1), 1000).catch(failed)
  for (let k = 0; k < 120; k++) {
    if (k % 40 === 0 || chance(0.04)) await transport.open(events)
    how = pick(['whole', 'whole', 'late', 'many', 'odd', 'gone', 'cut', 'silent', 'silent'])
    if (k % 40 > 34) how = 'silent'
    const heard = new Promise<void>(resolve => {
      asked = resolve
    })
    const answer = transport
      .exchange(1 + below(3), Uint8Array.of(3, 0, 0, 0, 1), 1000)
      .then(bytes => said.push([...bytes]), failed)
    await Promise.race([heard, answer])
    if (how === 'silent') await timers.advance(999)
    const waits = said.length
    if (how === 'silent') await timers.advance(1)
    await answer
    if (k % 40 === 33) await transport.close()
    trace.say(`${k} ${how}`, [said.splice(0), waits, transport.counters, timers.pending])
  }
  await transport.close()
  server.close()
  for (const socket of sockets) socket.destroy()
  await new TcpTransport({ ...options, port: 1 }).open(events).catch(failed)
  const closing = new TcpTransport(options)
  const opening = closing.open(events).catch(failed)
  await closing.close()
  await opening
  trace.say('nothing there', said)
  trace.compare()
})
