// J1939: ids decoded by hand, and long messages reassembled.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { destinationOf, indicators, pgnMask, pgnOf, sourceOf } from '../../../../../drivers/can/signals/j1939'
import { J1939Transport, TP_CONTROL, TP_DATA } from '../../../../../drivers/can/signals/transport'

test('an id contains parameter group, destination and source', () => {
  const parts = (id: number): number[] => [pgnOf(id), destinationOf(id), sourceOf(id)]
  // EEC1 of the engine, broadcast: 011 0 0 11110000 00000100 00000000
  assert.deepEqual(parts(0x0cf00400), [61444, 255, 0])
  // TSC1 of the transmission to the engine: PF 0 is below 240, so the next byte is a destination
  assert.deepEqual(parts(0x0c000003), [0, 0, 3])
  assert.deepEqual(parts(0x18eaff17), [0xea00, 255, 0x17])
  // the data page is part of the group: 1 F0 13, and the last possible group
  assert.deepEqual(parts(0x19f01321), [0x1f013, 255, 0x21])
  assert.deepEqual(parts(0x1fffffff), [0x3ffff, 255, 255])
  assert.deepEqual(parts(0x1eef2a80), [0x2ef00, 0x2a, 0x80])
})

test('the mask of a group ignores priority, source and, if there is one, the destination', () => {
  const same = (a: number, b: number): boolean => (a & pgnMask(pgnOf(a))) === (b & pgnMask(pgnOf(a)))
  assert.ok(same(0x0cf00400, 0x1cf004fe))
  assert.ok(!same(0x0cf00400, 0x0cf00500))
  assert.ok(same(0x18ea0017, 0x0ceaff80))
  assert.ok(!same(0x18ea0017, 0x19ea0017))
})

test('reserved raw values by width', () => {
  assert.deepEqual(indicators(8), { error: 254, missing: 255 })
  assert.deepEqual(indicators(16), { error: 0xfe00, missing: 0xff00 })
  assert.deepEqual(indicators(32), { error: 0xfe00_0000, missing: 0xff00_0000 })
  assert.deepEqual(indicators(2), { error: 2, missing: 3 })
  assert.deepEqual(indicators(4), { error: 14, missing: 15 })
  assert.equal(indicators(1).error, Number.POSITIVE_INFINITY)
})

/** Frames as text: `source>destination kind bytes`. */
class World {
  now = 0
  readonly got: string[] = []
  readonly transport = new J1939Transport(
    pgn => pgn === 65226 || pgn === 0xef00,
    (pgn, source, data) => this.got.push(`${pgn} ${source} ${Buffer.from(data).toString('latin1')}`),
  )
  control(source: number, destination: number, bytes: number[]): void {
    this.transport.control(source, destination, Uint8Array.from(bytes), this.now)
  }
  data(source: number, destination: number, number: number, text: string): void {
    const bytes = Buffer.concat([Buffer.of(number), Buffer.from(text.padEnd(7, '\xff'), 'latin1')])
    this.transport.data(source, destination, bytes, this.now)
  }
}
const DM1 = [0xca, 0xfe, 0]

test('a broadcast message is reassembled from its frames', () => {
  const world = new World()
  assert.deepEqual([TP_CONTROL, TP_DATA], [60416, 60160])
  world.control(0, 255, [32, 17, 0, 3, 255, ...DM1])
  world.data(0, 255, 1, 'abcdefg')
  world.data(0, 255, 2, 'hijklmn')
  assert.deepEqual(world.got, [])
  world.data(0, 255, 3, 'opq')
  assert.deepEqual(world.got, ['65226 0 abcdefghijklmnopq'])
  world.data(0, 255, 3, 'opq')
  assert.equal(world.got.length, 1)
})

test('two stations at the same time, and retransmitted frames, do not mix', () => {
  const world = new World()
  world.control(1, 9, [16, 10, 0, 2, 2, 0, 0xef, 0])
  world.control(2, 9, [16, 10, 0, 2, 2, 0, 0xef, 0])
  world.control(9, 1, [17, 2, 1, 255, 255, 0, 0xef, 0])
  world.data(2, 9, 2, 'TWO')
  world.data(1, 9, 1, 'one one')
  world.data(1, 9, 1, 'one one')
  world.data(2, 9, 1, 'two two')
  world.data(1, 9, 2, 'ONE')
  assert.deepEqual(world.got, ['61184 2 two twoTWO', '61184 1 one oneONE'])
})

test('a message that is silent, aborted, announced again or unwanted is dropped', () => {
  const world = new World()
  world.control(0, 255, [32, 9, 0, 2, 255, ...DM1])
  world.data(0, 255, 1, 'abcdefg')
  world.now = 2000
  world.data(0, 255, 2, 'hi')
  assert.equal(world.transport.incomplete, 1)
  world.control(0, 255, [32, 9, 0, 2, 255, ...DM1])
  world.control(0, 255, [255, 3, 255, 255, 255, ...DM1])
  world.data(0, 255, 1, 'abcdefg')
  world.data(0, 255, 2, 'hi')
  world.control(0, 255, [32, 9, 0, 2, 255, ...DM1])
  world.data(0, 255, 1, 'abcdefg')
  world.control(0, 255, [32, 9, 0, 2, 255, ...DM1])
  world.data(0, 255, 2, 'hi')
  assert.deepEqual([world.got, world.transport.incomplete], [[], 3])
  world.data(0, 255, 1, 'ABCDEFG')
  assert.deepEqual(world.got, ['65226 0 ABCDEFGhi'])
  // impossible sizes, groups without a reader, frames of unknown stations
  world.control(0, 255, [32, 8, 0, 2, 255, ...DM1])
  world.control(0, 255, [32, 20, 0, 2, 255, ...DM1])
  world.control(0, 255, [32, 0xff, 0xff, 255, 255, ...DM1])
  world.control(0, 255, [32, 9, 0, 2, 255, 1, 2, 0])
  world.control(0, 255, [32, 9])
  world.data(0, 255, 1, 'abcdefg')
  assert.equal(world.got.length, 1)
})

test('the longest message has 1785 bytes; when stations exceed the limit, the one silent longest is evicted', () => {
  const world = new World()
  world.control(7, 255, [32, 0xf9, 0x06, 255, 255, ...DM1])
  for (let k = 255; k > 0; k--) world.data(7, 255, k, '0123456')
  assert.equal(world.got[0]?.length, '65226 7 '.length + 1785)
  for (let source = 0; source < 33; source++) {
    world.now += 1
    world.control(source, 255, [32, 9, 0, 2, 255, ...DM1])
  }
  assert.equal(world.transport.incomplete, 1)
  for (const source of [0, 1, 32]) {
    world.data(source, 255, 1, 'abcdefg')
    world.data(source, 255, 2, 'hi')
  }
  assert.deepEqual(world.got.slice(1), ['65226 1 abcdefghi', '65226 32 abcdefghi'])
})
