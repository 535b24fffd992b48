// The radio on a chip in memory: what is written to it and read from it, and when. The same behaviour on a real spidev and real lines:
// test/rig/lora-radio.test.ts.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { frequencyWord } from '../../../../drivers/lora/modem'
import { COMMAND } from '../../../../src/wire/commands'
import { bytes, end, hex, pair, World } from './radio-world'

test('packets of 1 to 255 bytes are received complete, one after the other in the buffer', async () => {
  const [a, b, world] = await pair()
  for (const n of [1, 2, 100, 254, 255, 33]) {
    assert.equal(await a.send(bytes(n, n)), true)
    await world.run(10)
    assert.equal(b.heard.at(-1)!.packet, hex(bytes(n, n)))
    assert.equal(hex(a.chip.sent.at(-1)!.payload), hex(bytes(n, n)), 'no byte more is on the air')
  }
  // two in a row, the second before the first was read: the registers describe the newer one
  b.chip.hear(bytes(20, 3))
  await world.run(10)
  b.chip.hear(bytes(30, 4))
  await world.run(10)
  assert.deepEqual(
    b.heard.slice(-2).map(({ packet }) => packet),
    [bytes(20, 3), bytes(30, 4)].map(hex),
  )
  assert.equal(b.chip.reg[0x12], 0, 'no flag stays set')
  assert.deepEqual([a.detail.reinits, b.detail.reinits, b.detail.missed_edges], [0, 0, 0])
  await end(a, b)
})

test('a packet that the next one overwrote before it was read is counted and not delivered', async () => {
  const [a, b, world] = await pair()
  const { chip } = b
  const heard = (): string[] => b.heard.splice(0).map(({ packet }) => packet)
  const seen = async (): Promise<[string[], number]> => {
    await world.run(20)
    return [heard(), b.detail.overwritten!]
  }
  // three arrived while the gateway was busy: the registers describe the last
  for (const seed of [1, 2, 3]) chip.hear(bytes(50, seed))
  assert.deepEqual(await seen(), [[hex(bytes(50, 3))], 2])
  const whileRead = (...packets: Uint8Array[]): void => {
    chip.before = (register, _count, writes) => {
      if (register !== 0 || writes) return
      chip.before = () => undefined
      for (const packet of packets) chip.hear(packet)
    }
  }
  // after it there is room for one more
  whileRead(bytes(100, 5))
  chip.hear(bytes(100, 4))
  assert.deepEqual(await seen(), [[bytes(100, 4), bytes(100, 5)].map(hex), 2])
  // the ring is full: the end of the second is where the first began
  whileRead(bytes(200, 7))
  chip.hear(bytes(100, 6))
  assert.deepEqual(await seen(), [[hex(bytes(200, 7))], 3])
  // exactly full
  whileRead(bytes(156, 9))
  chip.hear(bytes(100, 8))
  assert.deepEqual(await seen(), [[bytes(100, 8), bytes(156, 9)].map(hex), 3])
  // three at the same time, though they are short
  whileRead(bytes(9, 1), bytes(9, 2))
  chip.hear(bytes(9, 3))
  assert.deepEqual(await seen(), [[hex(bytes(9, 2))], 5])
  // a damaged one has overwritten all of it, and is no packet itself
  chip.before = (register, _count, writes) => {
    if (register !== 0 || writes) return
    chip.before = () => undefined
    chip.hear(bytes(250, 2), true)
  }
  chip.hear(bytes(100, 1))
  assert.deepEqual(await seen(), [[], 6])
  assert.equal(b.detail.crc_errors, 1)
  await end(a, b)
})

test('a packet that arrives just before a channel check or a send is read first', async () => {
  for (const listen_before_talk of [true, false]) {
    const [a, b, world] = await pair({ listen_before_talk })
    b.chip.before = (register, _count, writes) => {
      if (register !== 1 || !writes) return
      b.chip.before = () => undefined
      b.chip.hear(bytes(40, 2))
    }
    assert.equal(await b.send(bytes(30, 1)), true)
    await world.run(50)
    assert.deepEqual([b.heard.map(({ packet }) => packet), a.heard.length], [[hex(bytes(40, 2))], 1])
    assert.equal(await a.send(bytes(30, 3)), true)
    await world.run(50)
    assert.equal(b.heard.length, 2, 'it receives again')
    await end(a, b)
  }
})

test('without a header, the packet is sent with a length byte before it and zeros after it', async () => {
  const [a, b, world] = await pair({ spreading_factor: 6, implicit_bytes: 60 })
  for (const n of [1, 40, 59]) {
    assert.equal(await a.send(bytes(n)), true)
    await world.run(10)
    assert.equal(b.heard.at(-1)!.packet, hex(bytes(n)))
    assert.deepEqual(a.chip.sent.at(-1)!.payload, Uint8Array.from([n, ...bytes(n), ...new Uint8Array(59 - n)]))
  }
  assert.equal(await a.send(bytes(60)), false)
  const before = b.heard.length
  b.chip.hear(Uint8Array.of(60, ...bytes(59)))
  b.chip.hear(new Uint8Array(60))
  await world.run(20)
  assert.equal(b.heard.length, before, 'a length that cannot be is no packet')
  await end(a, b)
})

test('signal and noise of each packet, above and below the noise, at either port; a wrong checksum is counted', async () => {
  for (const [frequency_hz, rssi] of [
    [868_100_000, [-61, -127.25]],
    [433_500_000, [-68, -134.25]],
  ] as const) {
    const [a, b, world] = await pair({ frequency_hz })
    for (const [pktRssi, pktSnr] of [
      [90, 0x24],
      [37, (-7.25 * 4) & 255],
    ] as const) {
      Object.assign(b.chip, { pktRssi, pktSnr })
      b.chip.hear(bytes(9))
      await world.run(10)
    }
    assert.deepEqual(
      b.heard.map(({ origin }) => [origin.rssi, origin.snr]),
      [
        [rssi[0], 9],
        [rssi[1], -7.25],
      ],
    )
    assert.deepEqual([b.detail.last_rssi_dbm, b.detail.last_snr_db], [rssi[1], -7.25], 'status has it')
    b.chip.hear(bytes(9), true)
    await world.run(10)
    assert.deepEqual([b.heard.length, b.detail.crc_errors], [2, 1])
    await end(a, b)
  }
})

test('the receiver is calibrated at its frequency; a calibration that does not end is a fault', async () => {
  const world = new World()
  const a = await world.station().open()
  assert.equal(a.chip.calibrated, frequencyWord(868_100_000))
  assert.deepEqual([a.chip.mode, a.chip.frf, a.chip.reg[0x3b]], [5, frequencyWord(868_100_000), 0x1d])
  await end(a)
  const b = world.station()
  b.chip.calibratesForEver = true
  await assert.rejects(b.open(), /the image calibration does not end/)
  await end(b)
})

test('closing during the opening releases everything, and it opens again', async () => {
  const world = new World()
  for (const ms of [0, 2, 20, 56, 64, 72]) {
    const a = world.station()
    const opening = assert.rejects(a.medium.open({ lost: () => undefined, degraded: () => undefined }), {
      code: 'LINK_DOWN',
    })
    await world.run(ms)
    await end(a)
    await opening
    await a.open()
    assert.equal(a.chip.mode, 5)
    await end(a)
  }
})

test('an idle radio with an edge line reads the chip no more often than its checks need', async () => {
  const world = new World()
  const a = await world.station({ check_interval_ms: 2000 }).open()
  await world.run(100)
  const before = a.chip.transfers
  await world.run(20_000, 20)
  const each = (a.chip.transfers - before) / 10
  assert.ok(each >= 7 && each <= 12, `${each} transfers in 2 s`)
  await end(a)
})

test('without DIO0, or with a DIO0 that gives no edges, packets are found by polling, and the link says so', async () => {
  const [a, b, world] = await pair({}, { dio0_pin: undefined })
  for (let k = 0; k < 10; k++) assert.equal(await a.send(bytes(20, k)), true)
  await world.run(50)
  assert.deepEqual([b.heard.length, b.reasons.length], [10, 0])
  await end(a, b)
  const [c, d, other] = await pair({ check_interval_ms: 500 })
  d.chip.unwired = true
  for (let k = 0; k < 5; k++) {
    await c.send(bytes(20, k))
    await other.run(600)
  }
  assert.equal(d.heard.length, 5)
  assert.match(d.reasons.at(-1)!, /^no edges on DIO0: check its wire/)
  await end(c, d)
})

test('the airtime account contains what was really on the air, including answers and failures', async () => {
  const [a, b, world] = await pair({ region: 'EU868' })
  const before = a.detail.duty_used_ms!
  assert.equal(before, 0)
  for (const n of [10, 200, 51]) await a.send(bytes(n))
  a.chip.jammed = true
  await a.send(bytes(100))
  assert.equal(a.detail.duty_used_percent, Math.round(a.detail.duty_used_ms! / 36) / 10)
  const aired = a.chip.sent.reduce((sum, { from, to }) => sum + to - from, 0)
  assert.ok(Math.abs(a.detail.duty_used_ms! - aired) < 1, `${a.detail.duty_used_ms} of ${aired}`)
  assert.ok(Math.abs(a.detail.airtime_ms! - aired) < 1)
  await world.run(1000)
  assert.equal(await b.within(b.heard[0]!.origin.reply(bytes(5))), true)
  assert.equal(b.detail.duty_used_ms, Math.round(b.chip.sent[0]!.to - b.chip.sent[0]!.from))
  await end(a, b)
})

test('R18: a process that was killed had recorded the airtime before it sent', async t => {
  const dataDir = mkdtempSync(join(tmpdir(), 'lora-'))
  t.after(() => rmSync(dataDir, { recursive: true, force: true }))
  const world = new World()
  const a = await world.station({ region: 'EU868', spi: '/dev/one/kept' }, dataDir).open()
  const sending = a.medium.send(bytes(200))
  await world.run(150)
  assert.equal(a.chip.mode, 3, 'it is on the air')
  // what the next process finds: the same file, by its last name, and fresh memory
  const b = world.station({ region: 'EU868', spi: '/dev/two/kept' }, dataDir)
  assert.equal(b.detail.airtime_ms, 0)
  assert.ok(b.detail.duty_used_ms! >= 300, JSON.stringify(b.detail))
  assert.equal(await a.within(sending), true)
  await end(a)
})

test('an answer that arrives when a packet is about to go: each is sent once, and reported as sent when it was', async () => {
  for (let ms = 0; ms < 6; ms += 0.5) {
    const [a, b, world] = await pair()
    await world.run(20)
    const data = a.medium.send(bytes(60, 1))
    // listening takes two symbols, 2 ms: the answer arrives before, during or after that
    for (let t = 0; t < ms; t += 0.5) await world.timers.advance(0.5)
    const answer = a.medium.send(Uint8Array.of(COMMAND.PONG, 0, 1))
    assert.deepEqual(await a.within(Promise.all([data, answer])), [true, true])
    await world.run(50)
    assert.deepEqual(
      b.heard.map(({ packet }) => packet).sort(),
      [hex(bytes(60, 1)), hex(Uint8Array.of(COMMAND.PONG, 0, 1))].sort(),
    )
    assert.equal(a.chip.sent.length, 2)
    await end(a, b)
  }
})

test('a sender that waits for the channel does not collide: eight packets from each of two, at the same time', async () => {
  const [a, b, world] = await pair()
  const sent = [a, b].flatMap(({ medium }) => Array.from({ length: 8 }, (_, k) => medium.send(bytes(40, k))))
  assert.deepEqual(await a.within(Promise.all(sent), 30_000), new Array(16).fill(true))
  await world.run(100)
  assert.ok(a.heard.length + b.heard.length >= 14, `${a.heard.length} and ${b.heard.length}`)
  assert.ok(a.detail.channel_busy! + b.detail.channel_busy! > 0)
  await end(a, b)
})
