// IPv4 over SLIP as a board may send it: for any bytes, an accepted packet is inside the frame, and the packets do not
// depend on how the bytes were split.
import assert from 'node:assert/strict'
import {
  decode,
  encodeEchoReply,
  encodeSlip,
  encodeUdp,
  HEADERS,
  SlipDecoder,
  slipSize,
} from '../../drivers/slip/codec'
import { examples, fuzz } from './harness'
import { repeated } from './mutate'

const MTU = 296
const OWN = 0x0a000001
const packets = examples().filter(packet => packet.length <= MTU - HEADERS)

const datagram = (packet: Uint8Array): Buffer => {
  const out = Buffer.alloc(packet.length + HEADERS)
  encodeUdp(packet, { ip: 0x0a000002, port: 8080 }, { ip: OWN, port: 8080 }, 1, out)
  return out
}
const framed = (bytes: Uint8Array): Buffer => {
  const out = Buffer.alloc(slipSize(bytes.length))
  return out.subarray(0, encodeSlip(bytes, out))
}

function taken(parts: Iterable<Uint8Array>): string[] {
  const got: string[] = []
  const out = new Uint8Array(MTU)
  const decoder = new SlipDecoder(MTU, frame => {
    assert.ok(frame.length > 0 && frame.length <= MTU)
    const came = decode(frame, OWN)
    if (typeof came === 'string') got.push(came)
    else {
      assert.ok(came.payload.length <= frame.length - 20)
      if (came.kind === 'echo') assert.ok(encodeEchoReply(came.payload, OWN, came.from.ip, 1, out) <= frame.length)
      got.push(`${came.kind} ${came.port} ${Buffer.from(came.payload).toString('latin1')}`)
    }
  })
  for (const part of parts) decoder.push(part)
  return got
}

function* chunks(input: Uint8Array): Generator<Uint8Array> {
  for (let at = 0, k = 0; at < input.length; k++) {
    const size = 1 + ((input[at]! * 31 + k) % 40)
    yield input.subarray(at, at + size)
    at += size
  }
}

fuzz({
  name: 'slip',
  seeds: [...packets.map(packet => framed(datagram(packet))), Buffer.concat(packets.map(p => framed(datagram(p))))],
  words: [Uint8Array.of(0xc0), Uint8Array.of(0xdb), Uint8Array.of(0xdb, 0xdc), Uint8Array.of(0x45, 0)],
  shape: (input, random) => {
    // the checksum of the header is corrected, so that mutations pass it
    const bytes = Buffer.from(input.subarray(0, MTU))
    if (bytes.length < 20 || random.chance(0.3)) return input
    bytes[0] = 0x45
    bytes.writeUInt32BE(OWN, 16)
    bytes.writeUInt16BE(bytes.length, 2)
    bytes.writeUInt16BE(0, 10)
    let sum = 0
    for (let k = 0; k < 20; k += 2) sum += bytes.readUInt16BE(k)
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
    bytes.writeUInt16BE(~sum & 0xffff, 10)
    return framed(bytes)
  },
  run(input) {
    const whole = taken([input])
    assert.deepEqual(taken(chunks(input)), whole, 'another packet for other chunks')
    return `${Math.min(whole.length, 5)} ${whole.slice(0, 3).map(text => text.slice(0, 12))}`
  },
  growing: {
    'of ends': n => repeated('\xc0', n),
    'of escapes': n => repeated('\xdb', n),
    'of one long frame': n => Buffer.alloc(n, 0x45),
  },
})
