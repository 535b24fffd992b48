import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HciSocket } from '../../../../drivers/bluetooth/hci-socket'
import type { Descriptor, HciAddon } from '../../../../src/native/addon'

const ENODEV = -19
const EBUSY = -16
const ENETDOWN = -100
const EAGAIN = -11
const CONNECTED = (handle: number, type: number, subEvent = 1, status = 0): string => {
  const u16 = Buffer.alloc(2)
  u16.writeUInt16LE(handle)
  return `043e13${hex(subEvent)}${hex(status)}${u16.toString('hex')}00${hex(type)}a1a2a3a4a5a6${'00'.repeat(9)}`
}
const hex = (byte: number): string => byte.toString(16).padStart(2, '0')

/** The addon with an adapter whose packets the test supplies, and a list of the calls made to it. */
function world(results: Partial<Record<'openHci' | 'hciInfo' | 'sendOne' | 'holdLe', number>> = {}) {
  const calls: string[] = []
  const waiting: (string | number)[] = []
  let wake = (_events: number): void => undefined
  const opened = (name: string): Descriptor => name as unknown as Descriptor
  const bytesOf = (data: Uint8Array): string => Buffer.from(data).toString('hex')
  let held = 0
  const addon: Partial<HciAddon> = {
    openHci: (device, channel) => {
      calls.push(`open ${device} ${channel}`)
      return results.openHci ?? opened('socket')
    },
    hciInfo: (_, device, address) => {
      calls.push(`info ${device}`)
      address.set(Buffer.from('b1b2b3b4b5b6', 'hex'))
      return results.hciInfo ?? 1
    },
    hciFilter: (_, filter) => calls.push(`filter ${bytesOf(filter)}`) * 0,
    sendOne: (_, packet) => {
      calls.push(`send ${bytesOf(packet)}`)
      return results.sendOne ?? packet.length
    },
    holdLe: (adapter, peer, type) => {
      calls.push(`hold ${bytesOf(adapter)} ${bytesOf(peer)} ${type}`)
      return results.holdLe ?? opened(`hold ${++held}`)
    },
    watch: (_, events, callback) => {
      calls.push(`watch ${events}`)
      wake = callback!
      return 0
    },
    close: descriptor => calls.push(`close ${descriptor as unknown as string}`) * 0,
    receive: (_, slab, lengths) => {
      if (typeof waiting[0] === 'number') return waiting.shift() as number
      const packets = waiting.splice(0, lengths.length).map(text => Buffer.from(String(text), 'hex'))
      for (const [k, packet] of packets.entries()) {
        slab.set(packet, (k * slab.length) / lengths.length)
        lengths[k] = packet.length
      }
      return packets.length || EAGAIN
    },
  }
  const socket = new HciSocket(addon as HciAddon)
  const heard: string[] = []
  socket.on('data', (packet: Buffer) => heard.push(packet.toString('hex')))
  socket.on('error', (error: NodeJS.ErrnoException) => heard.push(`error ${error.syscall} ${error.code}`))
  socket.on('state', () => heard.push(`state ${socket.isDevUp()}`))
  const said = (): string[] => calls.splice(0)
  /** what was received of these packets, and which calls were made meanwhile */
  const hear = (...packets: (string | number)[]): [string[], string[]] => {
    waiting.push(...packets)
    wake(1)
    return [heard.splice(0), said()]
  }
  return { socket, hear, said }
}

test('a packet keeps its bytes, whatever is read after it', () => {
  const { socket, hear, said } = world()
  assert.equal(socket.bindRaw(3), 3)
  socket.start()
  assert.equal(socket.isDevUp(), true)
  socket.setFilter(Buffer.from('10', 'hex'))
  socket.write(Buffer.from('01030c00', 'hex'))
  assert.deepEqual(said(), ['open 3 0', 'watch 1', 'info 3', 'filter 10', 'send 01030c00'])
  const kept: Buffer[] = []
  socket.on('data', packet => kept.push(packet))
  assert.deepEqual(hear('040e0401030c00', '02400001'), [['040e0401030c00', '02400001'], []])
  hear('04ff')
  assert.deepEqual(hear(), [[], []])
  assert.deepEqual(
    kept.map(packet => packet.toString('hex')),
    ['040e0401030c00', '02400001', '04ff'],
  )
})

test('a connection is kept open from its begin to its end, and all connections end when the socket closes', () => {
  const { socket, hear, said } = world()
  socket.bindRaw(0)
  socket.start()
  socket.isDevUp()
  said()
  const peer = 'a1a2a3a4a5a6'
  const adapter = 'b1b2b3b4b5b6'
  const askedFor = (...packets: string[]): string[] => hear(...packets)[1]
  assert.deepEqual(askedFor(CONNECTED(0x0041, 0)), [`hold ${adapter} ${peer} 1`])
  assert.deepEqual(askedFor(CONNECTED(0x0042, 1, 0x0a)), [`hold ${adapter} ${peer} 2`])
  assert.deepEqual(askedFor(CONNECTED(0x0e43, 3)), [`hold ${adapter} ${peer} 2`])
  // failed, another event, too short, no event
  assert.deepEqual(askedFor(CONNECTED(0x44, 0, 1, 2), CONNECTED(0x44, 0, 2), CONNECTED(0x44, 0).slice(0, 20), '02'), [])
  assert.deepEqual(askedFor('04050400420013', '04050401410013', '040504004500', '0405040099'), ['close hold 2'])
  assert.deepEqual(askedFor(CONNECTED(0x0041, 0)), ['close hold 1', `hold ${adapter} ${peer} 1`])
  socket.stop()
  assert.deepEqual(said(), ['close hold 3', 'close hold 4', 'close socket'])
  socket.stop()
  assert.deepEqual([said(), socket.isDevUp()], [[], false])
})

test('on the user channel no kernel connection has to be kept open', () => {
  const { socket, hear, said } = world()
  socket.bindUser(1)
  socket.start()
  assert.deepEqual(said(), ['open 1 1', 'watch 1'])
  assert.deepEqual(hear(CONNECTED(0x41, 0))[1], [])
})

test('a refusal by the kernel is thrown while opening, and is an event later', () => {
  assert.throws(() => world({ openHci: EBUSY }).socket.bindUser(0), { code: 'EBUSY', syscall: 'bind' })
  const { socket, hear } = world({ sendOne: ENETDOWN, holdLe: ENODEV })
  socket.bindRaw(0)
  socket.start()
  socket.write(Buffer.of(1))
  assert.deepEqual(hear(CONNECTED(0x41, 0))[0], ['error write ENETDOWN', 'error connect ENODEV', CONNECTED(0x41, 0)])
})

test('an adapter that is unplugged closes the socket, and is no longer up', () => {
  const { socket, hear, said } = world()
  socket.bindRaw(0)
  socket.start()
  said()
  assert.deepEqual(hear(ENODEV), [['error read ENODEV', 'state false'], ['close socket']])
  socket.write(Buffer.of(1))
  assert.deepEqual(hear('04'), [[], []])
})
