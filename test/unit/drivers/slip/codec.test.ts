// Bytes of SLIP, IPv4, UDP and ICMP. The fixed ones are written by hand from RFC 1055, 791, 768 and 792; in the rig the
// kernel itself is the peer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decode,
  encodeEchoReply,
  encodeSlip,
  encodeUdp,
  HEADERS,
  ipText,
  parseIp,
  type ReceivedDatagram,
  SlipDecoder,
  slipSize,
} from '../../../../drivers/slip/codec'
import { prng } from '../../../lib/random'

const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'))
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const A = parseIp('192.168.0.1')!
const B = parseIp('192.168.0.199')!

test('the two special bytes of SLIP are escaped, and END is at both ends', () => {
  const out = new Uint8Array(slipSize(4))
  const used = encodeSlip(hex('01 c0 db 02'), out)
  assert.equal(text(out.subarray(0, used)), 'c001dbdcdbdd02c0')
})

test('any datagram passes through SLIP, however its bytes are split, and empty frames are skipped', () => {
  const random = prng(1)
  for (let round = 0; round < 200; round++) {
    const sent = Array.from({ length: 4 }, () =>
      Uint8Array.from({ length: 1 + Math.floor(random() * 300) }, () =>
        random() < 0.3 ? [0xc0, 0xdb, 0xdc, 0xdd][Math.floor(random() * 4)]! : Math.floor(random() * 256),
      ),
    )
    const stream = sent.flatMap(datagram => {
      const out = new Uint8Array(slipSize(datagram.length))
      return [...out.subarray(0, encodeSlip(datagram, out))]
    })
    const got: string[] = []
    const decoder = new SlipDecoder(300, frame => got.push(text(frame)))
    for (let at = 0; at < stream.length; ) {
      const size = 1 + Math.floor(random() * 50)
      decoder.push(Uint8Array.from(stream.slice(at, at + size)))
      at += size
    }
    assert.deepEqual(got, sent.map(text))
    assert.equal(decoder.broken, 0)
  }
})

test('a frame that is too long, or has a wrong escape, is dropped completely and counted; the next one is received', () => {
  const got: string[] = []
  const decoder = new SlipDecoder(4, frame => got.push(text(frame)))
  decoder.push(hex('c0 0102030405 c0 0a0b c0'))
  decoder.push(hex('01 db 02 c0 0c c0 01 db c0 0d c0'))
  assert.deepEqual(got, ['0a0b', '0c', '0d'])
  assert.equal(decoder.broken, 3)
  decoder.push(hex('01 02'))
  decoder.reset()
  decoder.push(hex('03 c0'))
  assert.deepEqual(got.slice(3), ['03'])
})

test('a frame with a damaged byte is dropped and counted, wherever the byte is; the next one is received', () => {
  const frames: string[] = []
  const decoder = new SlipDecoder(64, frame => frames.push(Buffer.from(frame).toString()))
  for (const [before, after] of [
    ['', 'one'],
    ['o', 'e'],
    ['one', ''],
  ] as const) {
    decoder.push(Buffer.from(`\xc0${before}`, 'latin1'))
    decoder.damaged()
    decoder.push(Buffer.from(`${after}\xc0\xc0two\xc0`, 'latin1'))
  }
  assert.deepEqual([frames, decoder.broken], [['two', 'two', 'two'], 3])
})

test('an IPv4 header and a UDP header are written with their checksums, byte for byte', () => {
  // the header of a well-known worked example: 115 bytes of UDP from 192.168.0.1 to .199, checksum b861
  const out = new Uint8Array(115)
  const size = encodeUdp(new Uint8Array(115 - HEADERS), { ip: A, port: 0x1234 }, { ip: B, port: 0x5678 }, 0, out)
  assert.equal(size, 115)
  assert.equal(text(out.subarray(0, 20)), '4500007300004000' + '4011b861' + 'c0a80001c0a800c7')
  assert.equal(text(out.subarray(20, 26)), '12345678' + '005f')
  // c0a8+0001+c0a8+00c7 + 0011+005f + 1234+5678+005f = 1eae3 → eae4, inverted 151b
  const words = [0xc0a8, 0x0001, 0xc0a8, 0x00c7, 0x0011, 0x005f, 0x1234, 0x5678, 0x005f]
  let sum = words.reduce((a, b) => a + b)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  assert.equal(text(out.subarray(26, 28)), (~sum & 0xffff).toString(16).padStart(4, '0'))
})

test('a checksum of zero is sent as ffff, and both are accepted', () => {
  const out = new Uint8Array(64)
  const from = { ip: A, port: 1 }
  for (let word = 0; word < 0x10000; word++) {
    const size = encodeUdp(Uint8Array.of(word >> 8, word), from, { ip: B, port: 2 }, 7, out)
    const sum = (out[26]! << 8) | out[27]!
    assert.notEqual(sum, 0)
    const came = decode(out.subarray(0, size), B) as ReceivedDatagram
    assert.equal(came.kind, 'udp')
  }
})

test('decoding reverses encoding: odd and even sizes, up to the largest', () => {
  const random = prng(2)
  const out = new Uint8Array(1500)
  for (let size = 0; size <= 1500 - HEADERS; size += 1 + Math.floor(random() * 9)) {
    const payload = Uint8Array.from({ length: size }, () => Math.floor(random() * 256))
    const used = encodeUdp(payload, { ip: A, port: 50_000 }, { ip: B, port: 8080 }, size, out)
    const came = decode(out.subarray(0, used), B) as ReceivedDatagram
    assert.deepEqual([came.kind, came.port, came.from.ip, came.from.port], ['udp', 8080, A, 50_000])
    assert.equal(text(came.payload), text(payload))
  }
})

test('any flipped bit of a datagram is detected, except those no checksum covers', () => {
  const out = new Uint8Array(HEADERS + 10)
  encodeUdp(
    Uint8Array.from({ length: 10 }, (_, k) => k * 17),
    { ip: A, port: 1 },
    { ip: B, port: 2 },
    3,
    out,
  )
  for (let bit = 0; bit < out.length * 8; bit++) {
    const bad = Uint8Array.from(out)
    bad[bit >> 3]! ^= 1 << (bit & 7)
    assert.equal(typeof decode(bad, B), 'string', `bit ${bit}`)
  }
})

test('fragments, other protocols, other addresses, short and invalid headers are refused by reason', () => {
  const good = new Uint8Array(HEADERS + 2)
  encodeUdp(hex('0102'), { ip: A, port: 1 }, { ip: B, port: 2 }, 3, good)
  const changed = (change: (bytes: Uint8Array) => void): Uint8Array => {
    const bytes = Uint8Array.from(good)
    change(bytes)
    bytes[10] = bytes[11] = 0
    let sum = 0
    for (let k = 0; k < 20; k += 2) sum += (bytes[k]! << 8) | bytes[k + 1]!
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
    bytes[10] = (~sum & 0xffff) >> 8
    bytes[11] = ~sum & 0xff
    return bytes
  }
  const first = (bytes: Uint8Array) => changed(b => b.set(bytes, 6))
  assert.equal(decode(first(hex('2000')), B), 'fragments')
  assert.equal(decode(first(hex('0001')), B), 'fragments')
  assert.equal(
    decode(
      changed(b => b.set([6], 9)),
      B,
    ),
    'other_protocol',
  )
  assert.equal(decode(good, A), 'other_address')
  assert.equal(decode(good.subarray(0, 19), B), 'bad_header')
  assert.equal(
    decode(
      changed(b => b.set([0x65], 0)),
      B,
    ),
    'bad_header',
  )
  assert.equal(
    decode(
      changed(b => b.set([0x44], 0)),
      B,
    ),
    'bad_header',
  )
  assert.equal(
    decode(
      changed(b => b.set([0, 31], 2)),
      B,
    ),
    'bad_header',
  )
  assert.equal(
    decode(
      changed(b => b.set([0, 7], 24)),
      B,
    ),
    'bad_header',
  )
  assert.equal(
    decode(
      changed(b => b.set([0, 11], 24)),
      B,
    ),
    'bad_header',
  )
  // no checksum at all is allowed, and so is a broadcast
  assert.equal(
    (
      decode(
        changed(b => b.set([0, 0], 26)),
        B,
      ) as ReceivedDatagram
    ).kind,
    'udp',
  )
})

test('bytes after the datagram are ignored', () => {
  const out = new Uint8Array(HEADERS + 4)
  encodeUdp(hex('0102'), { ip: A, port: 1 }, { ip: B, port: 2 }, 3, out)
  assert.equal(text((decode(out, B) as ReceivedDatagram).payload), '0102')
})

test('an echo request is answered with its own bytes', () => {
  // type 8, code 0, id 0001, seq 0002, 'abc'; checksum by hand: 0800+0001+0002+6162+6300 = cc65 → 339a
  const request = hex('0800 339a 0001 0002 616263')
  const frame = new Uint8Array(20 + request.length)
  encodeUdp(new Uint8Array(request.length - 8), { ip: A, port: 0 }, { ip: B, port: 0 }, 1, frame)
  frame[9] = 1
  frame[10] = frame[11] = 0
  let sum = 0
  for (let k = 0; k < 20; k += 2) sum += (frame[k]! << 8) | frame[k + 1]!
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  frame[10] = (~sum & 0xffff) >> 8
  frame[11] = ~sum & 0xff
  frame.set(request, 20)
  const came = decode(frame, B) as ReceivedDatagram
  assert.deepEqual([came.kind, text(came.payload)], ['echo', text(request)])
  const out = new Uint8Array(64)
  const size = encodeEchoReply(came.payload, B, A, 9, out)
  assert.equal(text(out.subarray(20, size)), text(hex('0000 3b9a 0001 0002 616263')))
  assert.equal(ipText(A), '192.168.0.1')
  frame[25]! ^= 1
  assert.equal(decode(frame, B), 'bad_checksum')
})

test('an address must be four numbers up to 255', () => {
  assert.equal(parseIp('255.255.255.255'), 0xffffffff)
  for (const ip of ['192.168.10.77', '1.2.3.4', '255.254.253.252']) assert.equal(ipText(parseIp(ip)!), ip)
  for (const wrong of ['', '1.2.3', '1.2.3.256', '1.2.3.4.5', 'a.b.c.d', '::1', '1.2.3.-4'])
    assert.equal(parseIp(wrong), null)
})
