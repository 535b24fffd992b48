// Limits of open connections, on sockets that the test plays: which are evicted, refused, cut off, and kept.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { Connections } from '../../../src/web/connections'
import { ManualClock, ManualTimers } from '../../lib/manual'

let port = 1

class Socket extends EventEmitter {
  readonly remotePort = port++
  destroyed = false
  ended = false
  writableLength = 0
  parser = { onIncoming: () => 0 }

  constructor(readonly remoteAddress: string) {
    super()
  }
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }
  end(): void {
    this.ended = true
  }
}

function world(limit = 16) {
  const timers = new ManualTimers(new ManualClock())
  const connections = new Connections({ limit, stallMs: 3000, timers })
  const server = new EventEmitter()
  connections.watch(server as never)
  const connect = (address: string): Socket => {
    const socket = new Socket(address)
    server.emit('connection', socket)
    return socket
  }
  /** Resolves the response; `begun` counts started answers. */
  const begun: Socket[] = []
  const ask = (socket: Socket): EventEmitter => {
    const res = new EventEmitter()
    connections.enter({ socket } as never, res as never, () => begun.push(socket))
    return res
  }
  return { timers, connections, connect, ask, begun }
}

test('one address gets a quarter, at least eight: its own idle connection is closed for a new one, a busy one never is', () => {
  const { connections, connect, ask } = world(40)
  const all = Array.from({ length: 10 }, () => connect('10.0.0.1'))
  assert.equal(all.filter(socket => socket.destroyed).length, 0)
  ask(all[0]!).emit('close') // the newest request is evicted last
  ask(all[1]!)
  connect('10.0.0.1')
  assert.deepEqual(
    [all[0]!.destroyed, all[1]!.destroyed, all[2]!.destroyed, connections.dropped],
    [false, false, true, 1],
  )
  const small = world(8)
  const busy = Array.from({ length: 8 }, () => small.connect('10.0.0.1'))
  for (const socket of busy) small.ask(socket)
  assert.equal(small.connect('10.0.0.1').destroyed, true)
  assert.deepEqual(
    [busy.some(socket => socket.destroyed), small.connections.dropped, small.connections.size],
    [false, 1, 8],
  )
})

test('at the total limit, an idle connection of any address is closed; if all are busy, one of the address with most', () => {
  const { connections, connect, ask } = world(16)
  const many = Array.from({ length: 8 }, () => connect('10.0.0.1'))
  const some = Array.from({ length: 7 }, () => connect('10.0.0.2'))
  const idle = connect('10.0.0.3')
  for (const socket of [...many, ...some]) ask(socket)
  const fresh = connect('10.0.0.4')
  assert.deepEqual([fresh.destroyed, idle.destroyed, connections.size, connections.dropped], [false, true, 16, 1])
  ask(fresh)
  const next = connect('10.0.0.4')
  assert.deepEqual([next.destroyed, many[0]!.destroyed, connections.size], [false, true, 16])
  ask(next)
  // both have seven now; one that would have as many as they do gets none of theirs
  for (let k = 0; k < 3; k++) ask(connect('10.0.0.4'))
  const held = (address: string, list: Socket[]): number =>
    list.filter(socket => !socket.destroyed && socket.remoteAddress === address).length
  assert.deepEqual([held('10.0.0.1', many), held('10.0.0.2', some), connections.size], [5, 6, 16])
  const fifth = connect('10.0.0.4')
  assert.deepEqual([fifth.destroyed, connections.size], [true, 16])
})

test('requests of a connection are answered one after the other; eight may wait, with the ninth it is cut off', () => {
  const { connections, connect, ask, begun } = world()
  const socket = connect('10.0.0.1')
  const answers = Array.from({ length: 8 }, () => ask(socket))
  assert.equal(begun.length, 1)
  answers[0]!.emit('close')
  assert.equal(begun.length, 2)
  ask(socket)
  assert.equal(socket.destroyed, false)
  ask(socket)
  assert.deepEqual([socket.destroyed, connections.cut, connections.dropped, connections.size], [true, 1, 0, 0])
  assert.equal(socket.parser.onIncoming(), -1, 'what it sent is parsed no further')
  answers[1]!.emit('close')
  ask(socket)
  assert.equal(begun.length, 2, 'nothing is answered after that')
})

test('a reader that reads nothing for stall_ms is cut off, one that reads something stays, but not forever', async () => {
  const { timers, connections, connect, ask } = world()
  const [stalls, slow, fast] = [connect('10.0.0.1'), connect('10.0.0.2'), connect('10.0.0.3')]
  for (const socket of [stalls, slow, fast]) ask(socket)
  stalls.writableLength = 100
  for (let look = 1; look <= 23; look++) {
    slow.writableLength = 1000 - look
    fast.writableLength = look % 2
    await timers.advance(1000)
    assert.equal(stalls.destroyed, look >= 4, `look ${look}`)
  }
  assert.deepEqual([slow.destroyed, connections.cut], [false, 1])
  slow.writableLength = 1
  await timers.advance(1000)
  assert.deepEqual([slow.destroyed, fast.destroyed, connections.cut], [true, false, 2])
  fast.destroy()
  await timers.advance(1000)
  assert.equal(timers.pending, 0, 'nothing to check')
})

test('unread data may be 16 MB in total; beyond that the reader with most of it is cut off', () => {
  const { connections, connect, ask } = world()
  const [a, b, c] = [connect('10.0.0.1'), connect('10.0.0.2'), connect('10.0.0.3')]
  a.writableLength = 6 * 2 ** 20
  b.writableLength = 10 * 2 ** 20
  ask(a)
  ask(b)
  ask(c)
  assert.equal(connections.cut, 0)
  a.writableLength++
  ask(connect('10.0.0.4'))
  assert.deepEqual([a.destroyed, b.destroyed, c.destroyed, connections.cut], [false, true, false, 1])
})

test('at a stop the idle connections close immediately, the others after their answer, and none is checked any more', async () => {
  const { timers, connections, connect, ask } = world()
  const [idle, busy] = [connect('10.0.0.1'), connect('10.0.0.2')]
  const first = ask(busy)
  const second = ask(busy)
  connections.closeIdle()
  assert.deepEqual([idle.destroyed, busy.destroyed, timers.pending], [true, false, 0])
  first.emit('close')
  assert.equal(busy.ended, false)
  second.emit('close')
  assert.deepEqual([busy.ended, busy.destroyed], [true, false])
})
