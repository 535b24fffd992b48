import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ModbusBus } from '../../../../drivers/modbus/bus'
import { frameRtu, readRequest } from '../../../../drivers/modbus/codec'
import { slaveSource } from '../../../../drivers/modbus/index'
import { tcpSchema } from '../../../../drivers/modbus/modbus-options'
import { RtuTransport } from '../../../../drivers/modbus/rtu'
import { Membership } from '../../../../drivers/modbus/shared'
import type { Line, OpenableEvents, Source } from '../../../../src/links/contracts'
import { checkOptions } from '../../../../src/links/driver-options'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'))

/** A line with slaves on it: `answer` gives the reply to a frame, and when. */
class Wire implements Line {
  readonly name = 'wire'
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly sent: { at: number; unit: number }[] = []
  answer: (frame: Uint8Array) => { bytes: Uint8Array; afterMs: number } | undefined = () => undefined
  events: OpenableEvents | undefined
  opens = 0
  #handler: (chunk: Uint8Array) => void = () => undefined
  damage: () => void = () => undefined

  async open(events: OpenableEvents): Promise<void> {
    this.opens++
    this.events = events
  }
  async close(): Promise<void> {
    this.events = undefined
  }
  onData(handler: (chunk: Uint8Array) => void, damaged: (byte: number) => void): void {
    this.#handler = handler
    this.damage = () => damaged(0)
  }
  bring(bytes: Uint8Array): void {
    this.#handler(bytes)
  }
  async write(bytes: Uint8Array): Promise<void> {
    this.sent.push({ at: this.clock.mono(), unit: bytes[0]! })
    const answer = this.answer(bytes)
    if (answer) this.timers.after(answer.afterMs, () => this.bring(answer.bytes))
  }
}

/** Registers hold 100 times the slave's number and their address. */
function healthy(frame: Uint8Array): { bytes: Uint8Array; afterMs: number } {
  const [unit, fn, high, low, , count] = frame as unknown as number[]
  const data = [fn!, count! * 2]
  for (let k = 0; k < count!; k++) {
    const value = unit! * 100 + ((high! << 8) | low!) + k
    data.push(value >> 8, value & 0xff)
  }
  return { bytes: frameRtu(unit!, Uint8Array.from(data)), afterMs: 20 }
}

let ports = 0

function world() {
  const wire = new Wire()
  const { clock, timers } = wire
  const port = `wire${ports++}`
  const bus = new ModbusBus(new RtuTransport(wire, { baudrate: 9600, characterMs: 10 / 9.6, clock, timers }), clock)
  const source = (slave: number, more: object = {}): Source => {
    const raw = { host: '-', registers: [{ id: `r${slave}`, address: 1 }], timeout_ms: 500, ...more }
    const options = checkOptions(tcpSchema, raw, 'x')
    return slaveSource('modbus_rtu', `s${slave}`, slave, options, 500, new Membership(port, {}, () => bus))
  }
  const reasons: string[] = []
  const events = { lost: (r: string) => reasons.push(`lost: ${r}`), degraded: (r: string) => reasons.push(r) }
  /** runs the clock until the promise settles */
  const settle = async <T>(work: Promise<T>): Promise<T> => {
    let done = false
    const end = (): void => {
      done = true
    }
    work.then(end, end)
    for (let k = 0; !done && k < 10_000; k++) await timers.advance(1)
    return work
  }
  return { wire, bus, source, events, reasons, settle, clock, timers }
}

test('sources on one port take turns, with a silent gap before each request', async () => {
  const { wire, source, events, settle } = world()
  wire.answer = healthy
  const sources = [1, 2, 3].map(slave => source(slave))
  for (const one of sources) await one.open(events)
  assert.equal(wire.opens, 1)
  const read = await settle(Promise.all(sources.map(one => one.read())))
  assert.deepEqual(
    read.map(([row]) => row),
    [
      ['r1', 'OK', 101, '1'],
      ['r2', 'OK', 201, '1'],
      ['r3', 'OK', 301, '1'],
    ],
  )
  const gaps = wire.sent.slice(1).map(({ at }, k) => at - wire.sent[k]!.at - 20)
  assert.ok(gaps.every(gap => gap >= 3.5 * (10 / 9.6)))
  await Promise.all(sources.map(one => one.close()))
  assert.equal(wire.events, undefined)
})

test('R17: a dead slave costs its own time-out once, and later almost nothing', async () => {
  const { wire, source, events, settle, clock, reasons } = world()
  wire.answer = frame => (frame[0] === 9 ? undefined : healthy(frame))
  const dead = source(9, {
    registers: [
      { id: 'a', address: 1 },
      { id: 'b', address: 50 },
      { id: 'c', address: 99 },
    ],
  })
  const alive = source(2)
  await dead.open(events)
  await alive.open(events)
  const before = clock.mono()
  const [lost, good] = await settle(Promise.all([dead.read(), alive.read()]))
  assert.deepEqual(
    lost!.map(row => row[1]),
    ['ERROR', 'ERROR', 'ERROR'],
  )
  assert.equal(good![0]![2], 201)
  // three requests to the dead slave, one time-out
  assert.ok(clock.mono() - before < 560, `${clock.mono() - before} ms`)
  assert.equal(reasons[0], '3 of 3 sensors: no answer from slave 9')
  let asked = 0
  for (let second = 0; second < 120; second++) {
    const sent = wire.sent.length
    const start = clock.mono()
    const [, row] = await settle(Promise.all([dead.read(), alive.read()]))
    assert.equal(row![0]![2], 201)
    const tries = wire.sent.slice(sent).filter(({ unit }) => unit === 9).length
    assert.ok(tries <= 1 && clock.mono() - start <= tries * 520 + 40)
    asked += tries
    await wire.timers.advance(1000 - (clock.mono() - start))
  }
  // a tenth of the bus time: 500 ms in 5 s
  assert.ok(asked >= 20 && asked <= 25, `asked ${asked} times in two minutes`)
  wire.answer = healthy
  await wire.timers.advance(5000)
  assert.deepEqual(
    (await settle(dead.read())).map(row => row[2]),
    [901, 950, 999],
  )
})

test('silent slaves are polled in turn, one every two seconds where the time-out is short; each is heard soon after it returns', async () => {
  const { wire, source, events, settle, clock } = world()
  wire.answer = frame => (frame[0]! >= 7 ? undefined : healthy(frame))
  const dead = [7, 8, 9].map(unit => source(unit, { timeout_ms: 100 }))
  const alive = source(2)
  for (const one of [...dead, alive]) await one.open(events)
  const second = async (): Promise<void> => {
    const start = clock.mono()
    for (const one of [...dead, alive]) await settle(one.read())
    await wire.timers.advance(1000 - (clock.mono() - start))
  }
  for (let k = 0; k < 5; k++) await second()
  const from = wire.sent.length
  for (let k = 0; k < 60; k++) await second()
  const asked = wire.sent.slice(from).filter(({ unit }) => unit >= 7)
  assert.ok(asked.length >= 20 && asked.length <= 31, `${asked.length} in a minute`)
  const each = [7, 8, 9].map(unit => asked.filter(one => one.unit === unit).length)
  assert.ok(Math.max(...each) - Math.min(...each) <= 1, `${each}`)
  const gaps = asked.slice(1).map(({ at }, k) => at - asked[k]!.at)
  assert.ok(
    gaps.every(gap => gap >= 2000),
    `${gaps}`,
  )
  wire.answer = healthy
  for (let k = 0; k < 10; k++) await second()
  for (const one of dead) assert.equal((await settle(one.read()))[0]![1], 'OK')
})

test('an answer after its time-out is not taken for the next one', async () => {
  const { wire, source, events, settle, timers } = world()
  let count = 0
  // the first request is answered 300 ms too late, with the register values of that time
  wire.answer = frame => {
    const value = 1000 + ++count
    return {
      bytes: frameRtu(frame[0]!, Uint8Array.of(3, 2, value >> 8, value & 0xff)),
      afterMs: count === 1 ? 800 : 20,
    }
  }
  const one = source(4)
  await one.open(events)
  assert.equal((await settle(one.read()))[0]![1], 'ERROR')
  // requested again immediately: refused without a byte on the wire
  assert.equal((await settle(one.read()))[0]![1], 'ERROR')
  assert.equal(wire.sent.length, 1)
  await timers.advance(500)
  assert.equal((await settle(one.read()))[0]![2], 1002)
})

test('a late answer of one slave is not taken by another', async () => {
  const { wire, source, events, settle } = world()
  wire.answer = frame => ({ ...healthy(frame), afterMs: frame[0] === 4 ? 510 : 30 })
  const late = source(4)
  const other = source(5)
  await late.open(events)
  await other.open(events)
  const [a, b] = await settle(Promise.all([late.read(), other.read()]))
  assert.equal(a![0]![1], 'ERROR')
  assert.equal(b![0]![2], 501)
})

test('noise before the answer does no harm; a damaged answer is requested again', async () => {
  const { wire, source, events, settle, bus } = world()
  let tries = 0
  wire.answer = frame => {
    const { bytes, afterMs } = healthy(frame)
    if (++tries === 1) bytes[3]! ^= 0x40
    return { bytes: Buffer.concat([tries > 1 ? hex('00 ff 04 03') : hex(''), bytes]), afterMs }
  }
  const one = source(4)
  await one.open(events)
  assert.equal((await settle(one.read()))[0]![2], 401)
  assert.equal(tries, 2)
  assert.equal(bus.counters.damaged, 1)
  wire.answer = frame => ({ bytes: healthy(frame).bytes.map(byte => byte ^ 0x55), afterMs: 20 })
  const [raw] = await settle(one.readRaw!())
  assert.equal(raw!.error, 'damaged answer from slave 4')
})

test('an answer with a damaged byte is dropped and requested again, even if its CRC is right; a break before an answer does not count', async () => {
  const { wire, bus, source, events, settle } = world()
  const one = source(4, { retries: 1 })
  await one.open(events)
  /** the answer has a damaged byte before its byte `at`, which is intact or missing */
  const cut = (at: number, lost: number) => (frame: Uint8Array) => {
    const { bytes } = healthy(frame)
    wire.timers.after(20, () => {
      wire.bring(bytes.subarray(0, at))
      wire.damage()
      wire.bring(bytes.subarray(at + lost))
    })
    return undefined
  }
  const size = 7
  for (const [at, lost] of [
    [3, 1],
    [3, 0],
    [1, 0],
    [size - 1, 1],
  ] as const) {
    wire.answer = cut(at, lost)
    const before = bus.counters.damaged
    assert.deepEqual((await settle(one.read()))[0], ['r4', 'ERROR', null, '1'], `${at} ${lost}`)
    assert.equal(bus.counters.damaged - before, 2)
    wire.answer = healthy
    await wire.timers.advance(2000)
    assert.equal((await settle(one.read()))[0]![2], 401)
  }
  wire.answer = cut(0, 0)
  assert.equal((await settle(one.read()))[0]![2], 401)
  assert.equal(one.counters.detail?.damaged_bytes, 9)
})

test('an exception is reported by name; a block that the device refuses is read register by register, immediately', async () => {
  const { wire, source, events, settle } = world()
  wire.answer = frame => {
    const [unit, fn, , low, , count] = frame as unknown as number[]
    return low! + count! > 3 ? { bytes: frameRtu(unit!, Uint8Array.of(fn! | 0x80, 2)), afterMs: 5 } : healthy(frame)
  }
  const registers = [1, 2, 3].map(address => ({ id: `r${address}`, address }))
  const one = source(6, { registers })
  await one.open(events)
  const first = await settle(one.readRaw!())
  assert.deepEqual(
    first.map(row => [row.value, row.raw]),
    [
      [601, '02 59'],
      [602, '02 5a'],
      [null, '02'],
    ],
  )
  assert.equal(first[2]!.error, 'slave 6, holding 3: illegal data address (exception 2)')
  assert.equal(one.counters.detail!.exceptions, 2)
  assert.deepEqual(await settle(one.readRaw!()), first)
  assert.deepEqual([one.counters.detail!.requests, one.counters.detail!.exceptions], [7, 3])
})

test('a lost port is reported once to every source on it; the next source that opens reopens it for all', async () => {
  const { wire, source, events, reasons, settle } = world()
  wire.answer = healthy
  const [a, b] = [source(1), source(2)]
  await a.open(events)
  await b.open(events)
  wire.events!.lost('unplugged')
  assert.deepEqual(reasons, ['lost: unplugged', 'lost: unplugged'])
  // one is open again before the other has closed
  await a.close()
  await a.open(events)
  await b.close()
  await b.open(events)
  assert.equal(wire.opens, 2)
  assert.ok(wire.events, 'the close of the old opening closed the new one')
  const rows = await settle(Promise.all([a.read(), b.read()]))
  assert.deepEqual(
    rows.map(([row]) => row![2]),
    [101, 201],
  )
})

test('a port that vanishes during a request ends the request immediately', async () => {
  const { wire, source, events, timers } = world()
  const one = source(1)
  await one.open(events)
  const read = assert.rejects(one.read(), { code: 'LINK_DOWN', message: 'unplugged' })
  await timers.advance(10)
  wire.events!.lost('unplugged')
  await read
})

test('other settings for the same port are refused; addresses counted from 1 are converted', async () => {
  const { wire, bus, source, events, settle } = world()
  wire.answer = healthy
  const key = `own${ports++}`
  const make = (): ModbusBus => bus
  const first = new Membership(key, { baudrate: 9600 }, make)
  const second = new Membership(key, { baudrate: 19200 }, make)
  await first.open(events)
  await assert.rejects(second.open(events), { code: 'LINK_DOWN', message: `${key} is in use with other settings` })
  await first.close()
  await second.open(events)
  await second.close()
  const one = source(1, { address_base: 1, registers: [{ id: 'x', address: 40 }] })
  await one.open(events)
  assert.equal((await settle(one.read()))[0]![2], 139)
  assert.throws(() => source(1, { address_base: 1, registers: [{ id: 'x', address: 0 }] }), /outside of the addresses/)
  assert.throws(() => source(1, { registers: [{ id: 'x', address: 65_535, type: 'u32' }] }), /outside of the addresses/)
  assert.throws(() => source(1, { registers: [{ id: 'x', adress: 1 }] }), /did you mean address/)
  assert.throws(() => source(1, { registers: [{ id: 'x', address: 1, type: 'bit' }] }), /belong together/)
})

test('a request addresses one slave, never broadcast, and has a valid size', () => {
  assert.deepEqual(frameRtu(1, readRequest('coil', 0xffff, 1)).length, 8)
})
