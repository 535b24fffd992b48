// UDP over SLIP between two ends of a line in memory: packets both ways, what is not for us, and what does not fit.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEchoReply, encodeSlip, encodeUdp, HEADERS, slipSize } from '../../../../drivers/slip/codec'
import { SlipMedium } from '../../../../drivers/slip/medium'
import { silentLogger } from '../../../../src/lib/logger'
import type { PacketOrigin } from '../../../../src/links/contracts'
import { LinePair } from '../../../lib/linepair'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const MTU = 128
const [BOARD, OURS] = [
  { ip: 0x0a000002, port: 49_152 },
  { ip: 0x0a000001, port: 8080 },
]
const events = { lost: () => undefined, degraded: () => undefined }

async function ends() {
  const timers = new ManualTimers(new ManualClock())
  const pair = new LinePair({ timers })
  const told: string[] = []
  const logger = { ...silentLogger, warn: (text: string) => told.push(text) }
  const common = { medium: 'UIP', mtu: MTU, logger }
  const board = new SlipMedium(pair.a, { ...common, own: BOARD, peer: OURS })
  const ours = new SlipMedium(pair.b, { ...common, own: OURS })
  const got: { packet: Buffer; origin: PacketOrigin }[] = []
  const answers: Buffer[] = []
  ours.onPacket((packet, origin) => got.push({ packet: Buffer.from(packet), origin }))
  board.onPacket(packet => answers.push(Buffer.from(packet)))
  await board.open(events)
  await ours.open(events)
  /** a datagram as anybody on the line may send it */
  const raw = async (size: number, datagram: Uint8Array): Promise<void> => {
    const frame = new Uint8Array(slipSize(size))
    await pair.a.write(frame.subarray(0, encodeSlip(datagram.subarray(0, size), frame)))
    await timers.advance(100)
  }
  return { timers, pair, told, board, ours, got, answers, raw }
}

test('a packet comes with its address, and its answer finds the way back', async () => {
  const { timers, board, got, answers } = await ends()
  const packet = Buffer.from([0x3f, 0xc0, 0xdb, 0xdc, 0xdd, 0])
  assert.equal(await board.send(packet), true)
  await timers.advance(100)
  assert.deepEqual(got[0]!.packet, packet)
  assert.deepEqual([got[0]!.origin.medium, got[0]!.origin.address], ['UIP', '10.0.0.2:49152'])
  assert.equal(await got[0]!.origin.reply(Buffer.from([0x0a, 0, 1])), true)
  await timers.advance(100)
  assert.deepEqual(answers, [Buffer.from([0x0a, 0, 1])])
})

test('a packet larger than one datagram is refused by name and counted, in answers too; the largest goes', async () => {
  const { timers, board, got, told } = await ends()
  assert.equal(board.maxPacket, MTU - HEADERS)
  assert.equal(await board.send(new Uint8Array(MTU - HEADERS).fill(0xc0)), true)
  await timers.advance(100)
  assert.equal(got.length, 1)
  for (const send of [board.send.bind(board), got[0]!.origin.reply])
    assert.equal(await send(new Uint8Array(MTU - HEADERS + 1)), false)
  await board.send(new Uint8Array(MTU - HEADERS + 1))
  assert.equal(told.length, 2, 'one line for each end, not for each packet')
  for (const line of told)
    assert.match(line, /PACKET_TOO_LARGE: 101 bytes to 10\.0\.0\.\d, which takes 100 \(mtu 128\)/)
  assert.deepEqual([board.counters.errors, board.counters.detail], [2, { too_large: 2 }])
})

test('a listening end answers ping; what is for other addresses and ports is dropped and counted', async () => {
  const { pair, ours, got, raw, timers } = await ends()
  const out = new Uint8Array(MTU)
  const size = encodeEchoReply(Uint8Array.of(8, 0, 0, 0, 0, 1, 0, 1, 7, 7), BOARD.ip, OURS.ip, 1, out)
  out[20] = 8 // a request, whose checksum follows: 8 more in the first byte
  out[22] = (out[22]! - 8) & 0xff
  const back: Uint8Array[] = []
  pair.a.onData(chunk => back.push(chunk.slice()))
  await raw(size, out)
  await timers.advance(100)
  assert.ok(Buffer.concat(back).includes(Buffer.from([0, 1, 0, 1, 7, 7])), 'the reply has the bytes of the request')
  await raw(encodeUdp(Uint8Array.of(1), BOARD, { ...OURS, port: 9 }, 2, out), out)
  await raw(encodeUdp(Uint8Array.of(1), BOARD, { ...OURS, ip: 0x0a000009 }, 3, out), out)
  assert.equal(got.length, 0)
  assert.deepEqual(ours.counters.detail, { other_port: 1, other_address: 1 })
})

test('a datagram with a damaged byte is dropped and counted, the next one comes', async () => {
  const { timers, pair, board, ours, got } = await ends()
  pair.b.damage(0x41)
  await board.send(Buffer.from('one'))
  await timers.advance(100)
  const frame = new Uint8Array(64)
  const datagram = new Uint8Array(MTU)
  const size = encodeUdp(Buffer.from('two'), BOARD, OURS, 1, datagram)
  const whole = frame.subarray(0, encodeSlip(datagram.subarray(0, size), frame))
  pair.b.arrive(whole.subarray(0, 30))
  pair.b.damage(0x41)
  pair.b.arrive(whole.subarray(30))
  await board.send(Buffer.from('three'))
  await timers.advance(100)
  assert.deepEqual(
    got.map(({ packet }) => packet.toString()),
    ['one', 'three'],
  )
  assert.deepEqual(ours.counters.detail, { broken_frames: 2, damaged_bytes: 2 })
})

test('only the peer answers an end that sends', async () => {
  const { board, answers, timers, pair } = await ends()
  const out = new Uint8Array(MTU)
  for (const from of [{ ...OURS, port: 1 }, OURS]) {
    const size = encodeUdp(Uint8Array.of(0x0a, 0, from.port & 0xff), from, BOARD, 1, out)
    const frame = new Uint8Array(slipSize(size))
    await pair.b.write(frame.subarray(0, encodeSlip(out.subarray(0, size), frame)))
    await timers.advance(100)
  }
  assert.equal(answers.length, 1)
  assert.deepEqual(board.counters.detail, { other_address: 1 })
})

test('a closed end sends nothing', async () => {
  const { board } = await ends()
  await board.close()
  assert.equal(await board.send(Uint8Array.of(1)), false)
  assert.deepEqual([board.counters.errors, board.counters.tx], [1, 0])
})
