// UDP over SLIP between two ends of a line in memory: packets in both directions, foreign packets, and oversized ones.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEchoReply, encodeSlip, encodeUdp, HEADERS, slipSize } from '../../../../drivers/slip/codec'
import { SlipMedium } from '../../../../drivers/slip/medium'
import { BoundedMedium } from '../../../../drivers/slip/network'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { Line, PacketHandler, PacketOrigin } from '../../../../src/links/contracts'
import { LinePair } from '../../../lib/linepair'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'

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
  /** a datagram as any sender on the line may send it */
  const raw = async (size: number, datagram: Uint8Array): Promise<void> => {
    const frame = new Uint8Array(slipSize(size))
    await pair.a.write(frame.subarray(0, encodeSlip(datagram.subarray(0, size), frame)))
    await timers.advance(100)
  }
  return { timers, pair, told, board, ours, got, answers, raw }
}

test('a packet arrives with its address, and the answer is sent back to it', async () => {
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

test('a packet larger than one datagram is refused by name and counted, also as an answer; the largest one is sent', async () => {
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

test('a listening end answers ping; packets for other addresses and ports are dropped and counted', async () => {
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

test('a datagram with a damaged byte is dropped and counted, the next one is received', async () => {
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

test('an end with a peer accepts packets from that peer only', async () => {
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

test('both ends of a line that loses, damages and delays, and a medium of limited size, behave as recorded', async () => {
  const trace = new Trace('unit/drivers/slip/medium-trace.txt')
  const { below, chance, pick } = dice(29)
  const timers = new ManualTimers(new ManualClock())
  const said: unknown[] = []
  const say =
    (...what: unknown[]) =>
    (value?: unknown): void =>
      void said.push([...what, value])
  const logger = { ...silentLogger, warn: say('warn'), error: say('error') }
  const heard: ((chunk: Uint8Array) => void)[] = []
  const damage: ((byte: number) => void)[] = []
  const line = (at: number): Line => ({
    ...{ name: `line ${at}`, counters: { rx: 0, tx: 0, errors: 0, detail: { damaged_bytes: at } } },
    open: async () => {
      if (chance(0.1)) throw new OsError('NOT_FOUND', 'no port')
    },
    close: async () => undefined,
    onData: (handler, damaged) => {
      heard[at] = handler
      damage[at] = damaged!
    },
    write: async bytes => {
      said.push([at, digest(0, bytes)])
      if (chance(0.2)) await new Promise<void>(resolve => void timers.after(500, resolve))
      if (chance(0.05)) throw new OsError('TIMEOUT', 'not taken')
      const out = Uint8Array.from(bytes)
      if (chance(0.1)) out[below(out.length)]! ^= 1 << below(8)
      const cut = chance(0.3) ? below(out.length) : out.length
      heard[1 - at]!(out.subarray(0, cut))
      if (chance(0.05)) damage[1 - at]!(1)
      heard[1 - at]!(out.subarray(cut))
    },
  })
  const common = { medium: 'UIP', mtu: MTU, logger }
  const inner = new SlipMedium(line(0), { ...common, own: BOARD, peer: OURS })
  const ours = new SlipMedium(line(1), { ...common, own: OURS })
  let way: { interface: string; mtu: number } | null = null
  const board = new BoundedMedium(inner, 'IWIP', MTU - HEADERS - 3, logger, async () => way as never)
  const listen =
    (who: string): PacketHandler =>
    (packet, { address, medium, reply }) => {
      said.push([who, packet.length, digest(0, packet), address, medium])
      if (packet[0] === 1) throw new Error('not handled')
      if (packet[0] === 2) void reply(new Uint8Array(pick([3, 97, 98, 100, 101])).fill(3)).then(say(who, 'replied'))
    }
  board.onPacket(listen('board'))
  ours.onPacket(listen('ours'))
  const out = new Uint8Array(MTU)
  await trace.steps('slip', 400, 20, async k => {
    way = pick([null, null, { interface: 'wlan0', mtu: MTU - 3 }, { interface: 'eth0', mtu: MTU - 4 }])
    for (const [who, medium] of Object.entries({ board, ours })) {
      if (k % 40 === 0 || chance(0.05))
        await medium
          .open(events)
          .then(say(who, 'open'), ({ code, message, hint }) => said.push([who, code, message, hint]))
      if (chance(0.02)) await medium.close()
    }
    const size = pick([1, 3, 96, 97, 98, 99, 100, 101])
    const packet = Uint8Array.from({ length: size }, () => pick([0, 1, 2, 3, 0xc0, 0xdb]))
    void board.send(packet).then(say('sent'))
    if (chance(0.1)) void ours.send(packet).then(say('ours sent'))
    if (k % 100 === 50) for (let n = 0; n < 90; n++) void board.send(packet.subarray(0, 9)).then(say('sent'))
    const from = pick([BOARD, { ip: BOARD.ip + below(400), port: below(9) }])
    const to = pick([OURS, OURS, { ...OURS, port: 9 }, { ...OURS, ip: 9 }, { ip: 0xffffffff, port: OURS.port }])
    const length = chance(0.2)
      ? encodeEchoReply(packet, from.ip, to.ip, k, out)
      : encodeUdp(packet.subarray(0, 90), from, to, k, out)
    if (length > 24 && out[9] === 1) {
      out[20] = 8
      out[22] = (out[22]! - 8) & 0xff
    }
    const frame = new Uint8Array(slipSize(length))
    const used = encodeSlip(out.subarray(0, length), frame)
    if (chance(0.4)) heard[below(2)]!(frame.subarray(0, used))
    await timers.advance(pick([0, 499, 500]))
    return [digest(0, Buffer.from(JSON.stringify(said.splice(0)))), board.counters, ours.counters, board.maxPacket]
  })
  trace.compare()
})
