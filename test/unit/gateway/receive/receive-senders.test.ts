// Who sends: addresses that are allowed, several runs or addresses of one id, and packets of foreign senders, which change nothing.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Addresses } from '../../../../src/gateway/receive/addresses'
import { allowList } from '../../../../src/gateway/receive/allow-list'
import { Epochs } from '../../../../src/gateway/receive/epochs'
import { createLogger, silentLogger } from '../../../../src/lib/logger'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { ipOf } from '../../../../src/protocol/address'
import { data, FULL, fact, frame, T0, units, wall } from './receive-world'

test('receiver.allow: packets of other senders are dropped unread and counted', () => {
  const { receive, kept, replies, from } = wall({ allowed: allowList(['10.1.0.0/16'], silentLogger) })
  for (const packet of [FULL, frame(1, FULL), Buffer.of(9, 0, 1), Buffer.from('junk')])
    receive.packet(packet, from('10.2.0.1:1'))
  assert.deepEqual(
    [receive.counters.not_allowed, receive.counters.malformed, kept.length, replies.length],
    [4, 0, 0, 0],
  )
  receive.packet(FULL, from('10.1.2.3:1'))
  assert.equal(kept.length, 1)
})

test('receiver.allow accepts addresses and ranges', () => {
  for (const [address, ip] of [
    ['192.0.2.1:8080', '192.0.2.1'],
    ['[fd00::1]:8080', 'fd00::1'],
    ['fd00::1', 'fd00::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['[fe80::1%eth0]:1', 'fe80::1'],
    ['ttyUSB0', ''],
  ])
    assert.equal(ipOf(address!), ip)
  const errors: string[] = []
  const logger = createLogger({ write: line => void errors.push(line) })
  const allowed = allowList(['192.0.2.7', 'fd00::/8', 'ttyUSB0', '10.0.0.0/99', '10.0.0.0/', ''], logger)
  assert.deepEqual(
    errors.map(line => /ERROR.*receiver\.allow: "(.*)" is not/.exec(line)?.[1]),
    ['10.0.0.0/99', '10.0.0.0/', ''],
  )
  assert.deepEqual(
    ['192.0.2.7:1', '192.0.2.8:1', '[fd12::5]:1', '[fe80::1]:1', 'ttyUSB0', 'ttyUSB1', '10.0.0.1:1', ''].map(allowed),
    [true, false, true, false, true, false, false, false],
  )
  assert.equal(allowList([], silentLogger)('anybody'), true)
})

test('the number of addresses of an AID is limited, and a device that alternates between two is counted once for each', () => {
  const addresses = new Addresses()
  const moves = ['a', 'b', 'a', 'b', 'c', 'a'].filter(address => addresses.heard(1, address))
  assert.deepEqual(moves, ['b', 'c'])
  assert.deepEqual(
    [addresses.heard(2, '10.0.0.1:5'), addresses.heard(2, '10.0.0.1:6')],
    [false, false],
    'a port is no place',
  )
  assert.equal(addresses.heard(2, '10.0.0.1:6'), false, 'the same place again')
  for (let k = 0; k < 40_000; k++) addresses.heard(k, 'x')
  assert.equal(addresses.several().length, 0, 'forgotten with the rest of it')
})

test('S13: unrequested answers change neither identity, time nor templates', () => {
  const { receive, kept, from, time } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  receive.packet(frame(1, sender.encode(fact(10, 1)).bytes), from('a:1'))
  const before = [time.now(), time.quality, time.offsetMs]
  const strangers = [
    '02000100000063000000007fffffff', // ID_ASSIGN
    '040001000100000063', // ID_POOL_RES
    '0c0000000000007fffffff', // TIME_RESPONSE, no request open
    '0d00000009000000007fffffff', // SECURE_DICT_READY
    '0e00000009', // SECURE_CHANNEL_ACK
    '0500000000000500000063ffffffff0000', // an answer of the exchange, CRC wrong
    '06000042414 44b4559'.replace(' ', ''), // NACK
    '0a00014f534e01000064', // PONG of the exchange
  ]
  for (const hex of strangers) receive.packet(Buffer.from(hex, 'hex'), from('evil:1'))
  // the peer's own run from another address: another numbering, and it is not acknowledged to the first
  receive.packet(frame(2, FULL, 77), from('evil:1'))
  assert.deepEqual([time.now(), time.quality, time.offsetMs], before)
  receive.packet(frame(2, sender.encode(fact(12, 2)).bytes), from('a:1'))
  assert.deepEqual(kept.at(-1), fact(12, 2))
})

test('two runs of one id that alternate count as two devices, with one warning; a restart does not', () => {
  const warned: string[] = []
  const logger = createLogger({ write: line => warned.push(line) })
  const { receive, from } = wall({ logger })
  let k = 0
  const heard = (epoch: number, address: string): void => {
    k++
    receive.packet(frame(k, data(0x3f, T0 + k, FULL.subarray(13, -3)), epoch), from(address))
  }
  for (const epoch of [5, 5, 6, 6, 7]) heard(epoch, 'a:1')
  assert.equal(receive.report().epochs_alternate, 0, 'restarts go on to new epochs')
  for (const [epoch, address] of [
    [8, 'b:1'],
    [7, 'a:1'],
    [8, 'b:1'],
  ] as const)
    heard(epoch, address)
  assert.equal(receive.report().epochs_alternate, 0, 'a late packet of the run before is none')
  heard(7, 'a:1')
  assert.equal(receive.report().epochs_alternate, 1)
  assert.equal(receive.counters.facts, 9, 'every packet is kept')
  assert.match(warned.join(''), /WARN .*two devices send as id 9 \(.*, one of them from a:1\)/)
})

test('no duplicate ids: a gateway that switches between two uplinks, two gateways that hear the same device', () => {
  const minute = 60_000
  const back = new Epochs()
  const flips = Array.from({ length: 20 }, (_, k) => [0, 1, 2].map(n => back.alternate(9, k % 2, k * minute + n)))
  assert.ok(!flips.flat().includes(true), 'a minute and several packets by each')
  const seldom = new Epochs()
  const turns = Array.from({ length: 5 }, (_, k) => seldom.alternate(9, k % 2, k * 10 * minute))
  assert.deepEqual(turns, [false, false, false, false, true], 'two devices that send every ten minutes')
  const relays = new Epochs()
  for (const aid of [1, 2]) relays.alternate(aid, aid - 1, 0)
  assert.ok(!Array.from({ length: 20 }, (_, k) => relays.alternate(9, k % 2, k)).includes(true))
  const many = new Epochs()
  for (let aid = 1; aid <= 40_000; aid++) many.alternate(aid, 5, 0)
  assert.equal(many.size, 32_768)
})

test('alternating epochs count only while they follow each other soon, and the AID heard last is forgotten last', () => {
  const minute = 60_000
  const slow = new Epochs()
  // each epoch stays a minute with three packets, then they alternate quickly: the count of returns restarts
  for (const [k, epoch] of [5, 6, 5, 6].entries())
    for (let n = 0; n < 3; n++) assert.equal(slow.alternate(9, epoch, k * minute), false)
  const quick = [5, 6, 5, 6].map((epoch, k) => slow.alternate(9, epoch, 4 * minute + k))
  assert.deepEqual(quick, [false, false, false, true], 'the first of them came after a minute')
  assert.deepEqual(
    [5, 6, 5].map((epoch, k) => slow.alternate(9, epoch, 4 * minute + 9 + k)),
    [false, false, true],
  )
  const long = new Epochs()
  const stay = (epoch: number, since: number, lasts: number): boolean[] =>
    [0, 1, lasts].map(after => long.alternate(9, epoch, since + after))
  for (let k = 0; k < 8; k++) assert.ok(!stay(5 + (k % 2), k * minute, minute - 1).includes(true), `${k}`)
  // after an hour with one epoch, three packets each or two every ten minutes are still two devices
  const turnsOf = (packets: number, apart: number): boolean[] => {
    const epochs = new Epochs()
    const send = (epoch: number, now: number): boolean[] =>
      Array.from({ length: packets }, (_, n) => epochs.alternate(9, epoch, now + n))
    send(5, 0)
    return [6, 5, 6, 5, 6].map((epoch, k) => send(epoch, 60 * minute + k * apart).includes(true))
  }
  for (const [packets, apart] of [
    [3, 1000],
    [2, 10 * minute],
  ] as const)
    assert.ok(turnsOf(packets, apart).includes(true), `${packets} packets`)
  assert.ok(!turnsOf(3, 10 * minute).includes(true))
  const bounded = new Epochs()
  for (let aid = 1; aid <= 32_768; aid++) bounded.alternate(aid, 5, 0)
  bounded.alternate(1, 6, 1)
  bounded.alternate(40_000, 9, 2)
  for (const epoch of [5, 6]) assert.equal(bounded.alternate(1, epoch, 3), false)
  assert.equal(bounded.alternate(1, 5, 4), false, 'others have these epochs too')
  assert.equal(bounded.size, 32_768, 'AID 2 went, AID 1 stayed')
})
