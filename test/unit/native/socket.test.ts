// Needs: cc
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import {
  AGAIN,
  BATCH,
  type Native,
  type NativeSocket,
  native,
  nativeOrNull,
  PEER_BYTES,
  READABLE,
  WRITABLE,
} from '../../../src/native'
import { leastGrowth } from '../../lib/leak'
import { UnixDatagramSocket } from '../../lib/unix-socket'

const lacks = nativeOrNull() && existsSync('/proc/self/fd') ? false : 'this machine has no C compiler'
/** qemu's user mode does not translate some calls */
const emulated = process.env.OS_NODE_EMULATED ? 'the emulator has no SO_MEMINFO' : false
const hasIPv6 = Object.values(networkInterfaces()).some(list => list?.some(a => a.address === '::1'))
const EBADF = -9
const EINVAL = -22

const descriptors = (): number => readdirSync('/proc/self/fd').length

function udp(t: TestContext, family: 4 | 6 = 4): NativeSocket {
  const socket = native().udpSocket(family)
  t.after(() => socket.close())
  return socket
}

function bound(t: TestContext, address = '127.0.0.1'): NativeSocket {
  const socket = udp(t, address.includes(':') ? 6 : 4)
  socket.bind(address, 0)
  return socket
}

function connected(t: TestContext, port: number, address = '127.0.0.1'): NativeSocket {
  const socket = udp(t, address.includes(':') ? 6 : 4)
  socket.connect(address, port)
  return socket
}

/** A slab with one slot of `bytes` per packet. */
const slots = (count: number, bytes = 2048) => ({
  slab: new Uint8Array(count * bytes),
  lengths: new Uint32Array(count),
  peers: new Uint8Array(count * PEER_BYTES),
})

const readable = (socket: NativeSocket): Promise<number> => new Promise(resolve => socket.watch(READABLE, resolve))

test('a datagram reaches an AF_UNIX socket, by path and by abstract name', { skip: lacks }, async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-unix-'))
  t.after(() => rmSync(dir, { recursive: true }))
  for (const path of [join(dir, 'notify'), `@os-node test ${process.pid}`]) {
    let socket: UnixDatagramSocket | undefined
    t.after(() => socket?.close())
    const received = new Promise<string>((resolve, reject) => {
      UnixDatagramSocket.bind(path, bytes => resolve(bytes.toString())).then(bound => {
        socket = bound
        native().sendUnixDatagram(path, Buffer.from('READY=1\nSTATUS=up'))
      }, reject)
    })
    assert.equal(await received, 'READY=1\nSTATUS=up')
  }
})

test('a full AF_UNIX receiver is EAGAIN, never a wait', { skip: lacks }, async t => {
  const path = `@os-node full ${process.pid}`
  const socket = await UnixDatagramSocket.bind(path, () => undefined)
  t.after(() => socket.close())
  socket.freeze()
  assert.throws(
    () => {
      for (let k = 0; k < 100_000; k++) native().sendUnixDatagram(path, Buffer.alloc(100))
    },
    { message: `${path}: sendto EAGAIN` },
  )
})

test('many packets arrive in one call, each with its length and its sender', { skip: lacks }, async t => {
  const server = bound(t)
  const { port } = server.state()
  const senders = [connected(t, port), connected(t, port)]
  const woken = readable(server)
  for (let k = 0; k < 100; k++) assert.equal(senders[k % 2]!.sendOne(Buffer.alloc(k, k)), k)
  assert.equal(await woken, READABLE)
  const { slab, lengths, peers } = slots(100)
  const first = server.receive(slab, lengths, peers)
  assert.equal(first, BATCH)
  for (let k = 0; k < first; k++) {
    assert.equal(lengths[k], k)
    assert.ok(slab.subarray(k * 2048, k * 2048 + k).every(byte => byte === k))
    assert.equal(native().addressText(peers, k), '127.0.0.1')
    const raw = peers.subarray(k * PEER_BYTES, (k + 1) * PEER_BYTES)
    assert.equal((raw[2]! << 8) | raw[3]!, senders[k % 2]!.state().port)
    assert.ok(raw.subarray(8).every(byte => byte === 0))
  }
  assert.equal(server.receive(slab, lengths, peers), 100 - BATCH)
  assert.equal(lengths[0], BATCH)
  assert.equal(server.receive(slab, lengths, peers), AGAIN)
})

test('a batch is sent from one slab, to the connected peer or each packet to its own address', {
  skip: lacks,
}, async t => {
  const server = bound(t)
  const clients = Array.from({ length: 3 }, () => connected(t, server.state().port))
  for (const client of clients) client.sendOne(Buffer.of(1))
  const at = slots(3, 8)
  assert.equal(server.receive(at.slab, at.lengths, at.peers), 3)
  const slab = Uint8Array.from({ length: 200 }, (_, k) => k)
  const offsets = Uint32Array.of(10, 50, 90)
  assert.equal(server.send(slab, offsets, Uint32Array.of(1, 2, 3), 3, at.peers), 3)
  for (const [k, client] of clients.entries()) {
    const { slab: got, lengths } = slots(2, 8)
    assert.equal(client.receive(got, lengths, null), 1)
    assert.equal(lengths[0], k + 1)
    assert.equal(got[0], offsets[k])
  }
  const many = new Uint32Array(150)
  assert.equal(
    clients[0]!.send(
      slab,
      many,
      many.map((_, k) => k + 1),
      150,
    ),
    150,
  )
  const { slab: got, lengths } = slots(64, 256)
  let last = 0
  for (let n = server.receive(got, lengths, null); n > 0; n = server.receive(got, lengths, null))
    for (let k = 0; k < n; k++) assert.equal(lengths[k], ++last)
  assert.equal(last, 150)
})

test('IPv6 addresses are reported with their interface, and IPv4 peers of :: as mapped', {
  skip: lacks || (hasIPv6 ? false : 'this machine has no IPv6'),
}, t => {
  const server = bound(t, '::')
  const { port } = server.state()
  connected(t, port, '::1').sendOne(Buffer.of(1))
  connected(t, port, '127.0.0.1').sendOne(Buffer.of(2))
  const { slab, lengths, peers } = slots(4)
  assert.equal(server.receive(slab, lengths, peers), 2)
  assert.equal(native().addressText(peers, 0), '::1')
  assert.equal(native().addressText(peers, 1), '::ffff:127.0.0.1')
  assert.equal(native().addressText(peers, 2), '')
  assert.equal(native().addressText(peers, 4), '')
  // a link-local address of the loopback interface: unassigned, but parsed
  const scoped = new Uint8Array(PEER_BYTES)
  scoped.set(peers.subarray(0, PEER_BYTES))
  scoped.set([0xfe, 0x80], 8)
  new DataView(scoped.buffer).setUint32(24, 1, true)
  assert.equal(native().addressText(scoped, 0), 'fe80::1%lo')
  assert.throws(() => udp(t, 6).bind('fe80::1%nowhere0', 0), { code: 'ENODEV' })
})

test('a failed opening gives the same error as node', { skip: lacks }, t => {
  const { port } = bound(t).state()
  assert.throws(() => udp(t).bind('127.0.0.1', bound(t).state().port), { code: 'EADDRINUSE', syscall: 'bind' })
  assert.throws(() => udp(t).bind('192.0.2.7', port), { code: 'EADDRNOTAVAIL' })
  for (const address of ['localhost', '1.2.3', '::1', '127.0.0.1%lo', 'x'.repeat(200), ''])
    assert.throws(() => udp(t).bind(address, 0), { code: 'EINVAL' }, address)
  assert.throws(() => udp(t).bind('127.0.0.1', 65_536), { code: 'EINVAL' })
})

test('wrong arguments are refused, whatever they are', { skip: lacks }, t => {
  const socket = connected(t, bound(t).state().port) as unknown as Record<string, (...args: unknown[]) => number>
  const bytes = new Uint8Array(100)
  const words = new Uint32Array(4)
  const junk = [
    undefined,
    null,
    'x',
    7,
    -1,
    {},
    [],
    new Float64Array(1),
    () => 1,
    Symbol('x'),
    new DataView(bytes.buffer),
  ]
  for (const wrong of junk) {
    assert.equal(socket['receive']!(wrong, words, null), EINVAL)
    assert.equal(socket['receive']!(bytes, wrong, null), EINVAL)
    assert.equal(socket['send']!(wrong, words, words, 1, null), EINVAL)
    assert.equal(socket['send']!(bytes, wrong, words, 1, null), EINVAL)
    assert.equal(socket['send']!(bytes, words, wrong, 1, null), EINVAL)
    if (typeof wrong !== 'object' && wrong !== undefined) assert.equal(socket['sendOne']!(wrong, null), EINVAL)
  }
  assert.equal(socket['receive']!(bytes, new Uint32Array(0), null), EINVAL)
  assert.equal(socket['receive']!(bytes, words, new Uint8Array(4 * PEER_BYTES - 1)), EINVAL)
  assert.equal(socket['send']!(bytes, words, words, 5, null), EINVAL, 'more than there are')
  assert.equal(socket['send']!(bytes, words, words, -1, null), EINVAL)
  assert.equal(socket['send']!(bytes, Uint32Array.of(50), Uint32Array.of(51), 1, null), EINVAL, 'beyond the slab')
  assert.equal(socket['send']!(bytes, Uint32Array.of(2 ** 32 - 1), Uint32Array.of(2), 1, null), EINVAL)
  assert.equal(socket['send']!(bytes, words, words, 4, new Uint8Array(PEER_BYTES)), EINVAL)
  assert.equal(socket['sendOne']!(bytes, new Uint8Array(3)), EINVAL)
})

test('after close every call is EBADF, and no callback runs any more', { skip: lacks }, async t => {
  const server = bound(t)
  const client = connected(t, server.state().port)
  let wakes = 0
  server.watch(READABLE, () => wakes++)
  client.sendOne(Buffer.of(1))
  server.close()
  server.close()
  await new Promise(resolve => setTimeout(resolve, 20))
  assert.equal(wakes, 0)
  assert.equal(server.sendOne(Buffer.of(1)), EBADF)
  assert.equal(server.receive(new Uint8Array(10), new Uint32Array(1), null), EBADF)
  assert.throws(() => server.state(), { code: 'EBADF' })
  assert.throws(() => server.rewatch(WRITABLE), { code: 'EBADF' })
})

test('a socket may be closed by the callback it wakes', { skip: lacks }, async t => {
  const server = bound(t)
  const done = new Promise<void>(resolve => {
    server.watch(READABLE | WRITABLE, () => {
      server.close()
      resolve()
    })
  })
  await done
  await new Promise(setImmediate)
  assert.equal(server.sendOne(Buffer.of(1)), EBADF)
})

test('a refusal by the peer wakes the callback, is reported once, and the socket continues', {
  skip: lacks,
}, async t => {
  const server = bound(t)
  const { port } = server.state()
  server.close()
  const client = connected(t, port)
  const woken = readable(client)
  client.sendOne(Buffer.of(1))
  assert.equal(await woken, READABLE)
  const { slab, lengths } = slots(1)
  assert.equal(client.receive(slab, lengths, null), -111)
  assert.equal(client.receive(slab, lengths, null), AGAIN)
  const again = udp(t)
  again.bind('127.0.0.1', port)
  assert.equal(client.sendOne(Buffer.of(2)), 1)
  assert.equal(again.receive(slab, lengths, null), 1)
})

test('packets the kernel dropped for lack of room are counted', { skip: lacks || emulated }, t => {
  const server = native().udpSocket(4, 4096)
  t.after(() => server.close())
  server.bind('127.0.0.1', 0)
  const client = connected(t, server.state().port)
  for (let k = 0; k < 200; k++) client.sendOne(Buffer.alloc(100))
  const { slab, lengths } = slots(64)
  let got = 0
  for (let n = server.receive(slab, lengths, null); n > 0; n = server.receive(slab, lengths, null)) got += n
  const { dropped } = server.state()
  assert.ok(dropped > 0)
  assert.equal(got + dropped, 200)
})

test('ten thousand sockets opened and closed leave no descriptors or memory behind', {
  skip: lacks,
}, async () => {
  const turn = async (count: number): Promise<void> => {
    for (let k = 0; k < count; k++) {
      const socket = native().udpSocket(4)
      socket.bind('127.0.0.1', 0)
      socket.watch(READABLE, () => undefined)
      socket.close()
      if (k % 100 === 0) await new Promise(setImmediate)
    }
    await new Promise(setImmediate)
    collect()
  }
  await turn(2000)
  const fds = descriptors()
  const grown = await leastGrowth(() => turn(10_000), 12)
  assert.equal(descriptors(), fds)
  // the sanitizers keep freed memory for a while
  if (!process.env.OS_NODE_ADDON_DIR) assert.ok(grown < 12, `${grown} MiB more`)
})

test('unreferenced sockets are closed by the garbage collector', { skip: lacks }, async () => {
  const before = descriptors()
  const forget = (library: Native): void => {
    for (let k = 0; k < 200; k++) library.udpSocket(4).bind('127.0.0.1', 0)
  }
  forget(native())
  for (let k = 0; k < 20 && descriptors() > before; k++) {
    collect()
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  assert.equal(descriptors(), before)
})

test('a thread that ends closes its sockets, watched or not', { skip: lacks }, async () => {
  const folder = process.env.OS_NODE_ADDON_DIR ?? join(process.env.OS_NODE_TEST_ROOT!, 'dist/native')
  const path = join(folder, `${process.platform}-${process.arch}/os_node.node`)
  const code = `
    const { parentPort, workerData } = require('node:worker_threads')
    const module_ = { exports: {} }
    process.dlopen(module_, workerData.path)
    const addon = module_.exports
    globalThis.kept = Array.from({ length: 20 }, (_, k) => {
      const socket = addon.openUdp(4, 0, 0)
      addon.bindUdp(socket, '127.0.0.1', 0)
      if (k % 2) addon.watch(socket, 3, () => undefined)
      return socket
    })
    if (workerData.ends) setTimeout(() => process.exit(), 5)
    parentPort.postMessage('up')`
  const run = async (ends: boolean): Promise<void> => {
    const worker = new Worker(code, { eval: true, workerData: { path, ends } })
    const exited = new Promise(resolve => worker.once('exit', resolve))
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
    if (!ends) await worker.terminate()
    await exited
  }
  await run(false)
  const before = descriptors()
  for (let k = 0; k < 6; k++) await run(k % 2 === 0)
  assert.equal(descriptors(), before)
})

function collect(): void {
  setFlagsFromString('--expose_gc')
  runInNewContext('gc')()
}
