// A medium over a line: packets in both directions for any chunks, silence that ends a frame, a pulled cable, an echo.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { Line } from '../../../../src/links/contracts'
import { frameCobs } from '../../../../src/links/line/cobs'
import { type LineFraming, LineMedium } from '../../../../src/links/line/medium'
import { Link } from '../../../../src/links/link'
import { buildIdAssign, buildIdRequest, buildNack, buildPing, buildPong } from '../../../../src/protocol/control'
import { frameSerial } from '../../../../src/wire/serial'
import { LinePair, type LinePairOptions } from '../../../lib/linepair'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const FULL = Buffer.from(
  '3f010000000901018e23f14c00393b442e312e4159346a385577417c613e4b2e393a317c623e4b2e413a327cbc74b1',
  'hex',
)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

class Ends {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly pair: LinePair
  readonly a: LineMedium
  readonly b: LineMedium
  readonly atA: string[] = []
  readonly atB: string[] = []

  constructor(framing: LineFraming, options: Partial<LinePairOptions> = {}) {
    const { clock, timers } = this
    this.pair = new LinePair({ timers, ...options })
    const common = { medium: 'UART', framing, maxPacket: 200, clock, timers, logger: silentLogger }
    this.a = new LineMedium(this.pair.a, common)
    this.b = new LineMedium(this.pair.b, common)
    this.a.onPacket(packet => this.atA.push(hex(packet)))
    this.b.onPacket((packet, origin) => {
      this.atB.push(hex(packet))
      if (packet[0] === 0x09) void origin.reply(buildPong((packet[1]! << 8) | packet[2]!))
    })
  }

  async open(): Promise<this> {
    for (const medium of [this.a, this.b]) await medium.open({ lost: () => undefined, degraded: () => undefined })
    return this
  }
}

for (const framing of ['uart', 'rs485', 'cobs'] as const)
  test(`${framing}: packets go in both directions, in chunks of any size, and answers find their request`, async () => {
    let size = 0
    const ends = await new Ends(framing, { chunk: () => (size = (size % 7) + 1) }).open()
    assert.equal(await ends.a.send(FULL), true)
    assert.equal(await ends.a.send(buildPing(7)), true)
    await ends.timers.advance(100)
    assert.deepEqual(ends.atB, [hex(FULL), '090007'])
    assert.deepEqual(ends.atA, ['0a0007'])
    assert.deepEqual(
      [ends.a.counters, ends.b.counters].map(({ rx, tx, errors }) => ({ rx, tx, errors })),
      [
        { rx: 1, tx: 2, errors: 0 },
        { rx: 2, tx: 1, errors: 0 },
      ],
    )
    const { bytes, taken } = ends.b.deframer.counters
    // COBS: the zero before a frame belongs to none
    assert.equal(bytes - taken, framing === 'cobs' ? 2 : 0)
  })

for (const framing of ['uart', 'rs485', 'cobs'] as const)
  test(`${framing}: a frame with a damaged byte is dropped, even if its checksum is right; adjacent frames are received`, async () => {
    const ends = await new Ends(framing).open()
    const { a, b } = ends.pair
    const frame = framing === 'cobs' ? frameCobs(FULL) : frameSerial(FULL, framing)
    for (let at = 1; at < frame.length; at++) {
      b.arrive(frame.subarray(0, at))
      b.damage(0)
      b.arrive(frame.subarray(at))
      await ends.timers.advance(50)
      assert.deepEqual(ends.atB, [], `damaged before byte ${at}`)
    }
    b.arrive(frame)
    b.damage(0x55)
    b.arrive(frame)
    await ends.timers.advance(50)
    // with COBS the bytes between two zeros are one frame
    assert.equal(ends.atB.length, 2)
    assert.equal(ends.b.counters.detail?.damaged_bytes, frame.length)
    await a.close()
  })

test('a data frame waits for a short silence, or until the bytes after it reach the maximum packet length', async () => {
  const ends = await new Ends('uart').open()
  await ends.a.send(FULL)
  await ends.timers.advance(5)
  assert.deepEqual(ends.atB, [])
  await ends.timers.advance(20)
  assert.deepEqual(ends.atB, [hex(FULL)])
  for (let k = 0; k < 20; k++) {
    await ends.a.send(FULL)
    await ends.timers.advance(10)
  }
  assert.ok(ends.atB.length > 10, 'a line that is never silent')
})

test('an answer without a request, or more than a minute late, is ignored; a NACK names its request', async () => {
  const ends = await new Ends('uart').open()
  const say = async (packet: Uint8Array): Promise<void> => {
    await ends.b.send(packet)
    await ends.timers.advance(50)
  }
  await say(buildIdAssign(5, 77))
  await say(buildNack(5, 'NO_ALLOCATOR'))
  assert.deepEqual(ends.atA, [])
  await ends.a.send(buildIdRequest(5))
  await say(buildNack(5, 'NO_ALLOCATOR'))
  await say(buildIdAssign(5, 77))
  assert.equal(ends.atA.length, 2)
  await ends.timers.advance(61_000)
  await say(buildIdAssign(5, 78))
  assert.equal(ends.atA.length, 2)
})

test('a bus that echoes, with a zero before each frame: no echo is taken for an answer', async () => {
  const ends = await new Ends('rs485', { carry: bytes => Buffer.concat([Buffer.from([0, 0]), bytes]) }).open()
  const { write } = ends.pair.b
  ends.pair.b.write = async bytes => {
    ends.pair.b.arrive(bytes)
    await write.call(ends.pair.b, bytes)
  }
  await ends.a.send(buildPing(3))
  await ends.timers.advance(50)
  assert.deepEqual(ends.atA, ['0a0003'])
  assert.deepEqual(ends.atB, ['090003'], 'its own PONG, echoed, answers no PING of its own')
})

test('a send that is too large, empty, or refused by the line returns false and is counted', async () => {
  const ends = await new Ends('uart').open()
  assert.equal(await ends.a.send(new Uint8Array(201)), false)
  assert.equal(await ends.a.send(new Uint8Array(0)), false)
  ends.pair.isCut = true
  assert.equal(await ends.a.send(FULL), false)
  assert.equal(ends.a.counters.errors, 3)
})

test('a line that accepts nothing queues a limited number of frames', async (t: TestContext) => {
  const clock = new ManualClock()
  const stuck: Line = {
    name: 'ttyS0',
    counters: { rx: 0, tx: 0, errors: 0 },
    open: async () => undefined,
    close: async () => undefined,
    onData: () => undefined,
    write: () => new Promise(() => undefined),
  }
  const timers = new ManualTimers(clock)
  const options = { medium: 'UART', framing: 'uart', maxPacket: 200, clock, timers, logger: silentLogger } as const
  const medium = new LineMedium(stuck, options)
  t.after(() => medium.close())
  for (let k = 0; k < 200; k++) void medium.send(FULL)
  assert.equal(await medium.send(FULL), false)
  assert.equal(medium.counters.errors, 200 - 64 + 1)
})

test('a pulled cable is a link that is down with its reason, and comes back; half a frame from before is dropped', async () => {
  const ends = new Ends('uart')
  const { clock, timers } = ends
  const links = [ends.a, ends.b].map(
    medium => new Link(medium, { clock, timers, logger: silentLogger, backoff: { minMs: 1000, maxMs: 1000 } }),
  )
  for (const link of links) link.enable()
  await timers.advance(10)
  ends.pair.b.arrive(Uint8Array.of(0x02, ...FULL.subarray(0, 20)))
  ends.pair.cut()
  assert.match(JSON.stringify(links[0]!.state), /"down".*no carrier/)
  await timers.advance(1500)
  assert.equal(links[0]!.state.state, 'down')
  ends.pair.mend()
  await timers.advance(3000)
  assert.deepEqual(
    links.map(link => link.state.state),
    ['up', 'up'],
  )
  ends.pair.b.arrive(Uint8Array.of(...FULL.subarray(20), 0x03))
  await ends.a.send(FULL)
  await timers.advance(50)
  assert.deepEqual(ends.atB, [hex(FULL)])
  await assert.rejects(
    (async () => {
      ends.pair.cut()
      await ends.a.open({ lost: () => undefined, degraded: () => undefined })
    })(),
    (error: OsError) => error.code === 'LINK_DOWN',
  )
})
