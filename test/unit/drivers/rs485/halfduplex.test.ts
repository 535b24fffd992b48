// One end of two wires that receives its own bytes, with clocks that only the test moves: echoes that are lost, damaged or
// late.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HalfDuplexLine } from '../../../../drivers/rs485/halfduplex'
import { OsError } from '../../../../src/lib/errors'
import { buildPoll } from '../../../../src/protocol/polling-turns'
import { frameSerial } from '../../../../src/wire/serial'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'

function line() {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  let arrive: (chunk: Uint8Array) => void = () => undefined
  let damage: (byte: number) => void = () => undefined
  const wire = {
    written: 0,
    fails: false,
    name: 'wire',
    counters: { rx: 0, tx: 0, errors: 0 },
    onData: (handler: (chunk: Uint8Array) => void, damaged: (byte: number) => void = () => undefined) => {
      arrive = handler
      damage = damaged
    },
    open: async () => undefined,
    close: async () => undefined,
    write: async () => {
      wire.written++
      if (wire.fails) throw new OsError('LINK_DOWN', 'no wire')
    },
  }
  const told: number[] = []
  const options = {
    ...{ clock, timers, told, turnaroundMs: 5, gapMs: 20 },
    heard: () => told.push(1),
    receiving: () => false,
    jitter: undefined as (() => number) | undefined,
  }
  const duplex = new HalfDuplexLine(wire, options)
  const heard: Buffer[] = []
  const damaged: number[] = []
  duplex.onData(
    chunk => heard.push(Buffer.from(chunk)),
    byte => damaged.push(byte),
  )
  /** Sends, and lets `echo` arrive after it. */
  const say = async (bytes: Uint8Array, echo: Uint8Array | null = bytes): Promise<void> => {
    const written = duplex.write(bytes)
    await timers.advance(10)
    await written
    if (echo) arrive(echo)
  }
  return {
    duplex,
    heard,
    damaged,
    say,
    timers,
    wire,
    options,
    arrive: (bytes: Uint8Array) => arrive(bytes),
    damage: (byte: number) => damage(byte),
  }
}

const poll = (seq: number): Uint8Array => frameSerial(buildPoll(seq, 7, 512), 'rs485')

test('an echo of own bytes is dropped; a lost echo costs none of the later ones', async () => {
  const { duplex, heard, say } = line()
  for (let seq = 0; seq < 10; seq++) await say(poll(seq))
  await say(poll(10), null)
  for (let seq = 11; seq < 30; seq++) await say(poll(seq))
  assert.deepEqual(heard, [])
  assert.deepEqual([duplex.tally.echoes, duplex.tally.collisions], [29, 1])
})

test('a damaged echo is passed on, and later echoes are recognized again', async () => {
  const { duplex, heard, say } = line()
  await say(poll(1))
  const damaged = poll(2)
  damaged[4]! ^= 0x40
  await say(poll(2), damaged)
  for (let seq = 3; seq < 20; seq++) await say(poll(seq))
  assert.deepEqual(Buffer.concat(heard), Buffer.from(damaged))
  assert.equal(duplex.tally.echoes, 18)
})

test('a damaged byte is passed on in its position; a break after silence comes from a transmitter', async () => {
  const { duplex, heard, damaged, say, timers, arrive, damage } = line()
  damage(0)
  arrive(poll(1))
  damage(0)
  damage(0x55)
  assert.deepEqual([Buffer.concat(heard), damaged, duplex.tally.nuls], [Buffer.from(poll(1)), [0, 0x55], 1])
  await timers.advance(100)
  await say(poll(2))
  await say(poll(3), poll(3).subarray(0, 4))
  damage(1)
  assert.deepEqual([damaged.length, duplex.tally.collisions, duplex.tally.echoes], [3, 1, 1])
  arrive(poll(4))
  assert.deepEqual(heard.at(-1), Buffer.from(poll(4)))
})

test('bytes of others between two echoes are received complete', async () => {
  const { heard, say, arrive } = line()
  await say(poll(1))
  await say(poll(2), null)
  const other = frameSerial(buildPoll(2, 9, 512), 'rs485')
  arrive(other)
  await say(poll(3))
  assert.deepEqual(Buffer.concat(heard), Buffer.from(other))
})

test('an echo is recognized by its bytes, however late it is; a wire without echo loses no bytes of others', async () => {
  const { duplex, heard, say, timers, arrive } = line()
  for (const late of [0, 99, 101, 5000, 600_000]) {
    const frame = poll(late % 1000)
    await say(frame, null)
    await timers.advance(late)
    arrive(frame.subarray(0, 3))
    await timers.advance(late)
    arrive(frame.subarray(3))
  }
  assert.deepEqual([heard, duplex.tally.echoes, duplex.tally.collisions], [[], 5, 0])

  const other = (seq: number): Uint8Array => frameSerial(buildPoll(seq, 9, 512), 'rs485')
  for (const answered of [true, false]) {
    const silent = line()
    const said: Uint8Array[] = []
    for (let seq = 0; seq < 300; seq++) {
      await silent.say(poll(seq), null)
      if (answered) said.push(other(seq))
      if (answered) silent.arrive(other(seq))
    }
    // bytes of another end are received, even if equal to ours
    silent.arrive(poll(299))
    assert.deepEqual(Buffer.concat(silent.heard), Buffer.concat([...said, poll(299)]))
    assert.equal(silent.duplex.tally.echoes, 0)
  }
})

test('a wire with echoes, others and damage behaves as recorded', async () => {
  const trace = new Trace('unit/drivers/rs485/halfduplex-trace.txt')
  const { below, chance, pick } = dice(23)
  for (const echoing of [0.9, 0.5, 0]) {
    const { duplex, heard, damaged, timers, arrive, damage, wire, options } = line()
    const said: unknown[] = []
    const late: Uint8Array[] = []
    options.jitter = echoing > 0.5 ? undefined : () => below(10) / 10
    await trace.steps(`${echoing}`, 700, 20, async k => {
      const frame = Uint8Array.from({ length: 1 + below(5) }, () => below(3))
      options.receiving = () => k % 7 === 3
      if (chance(0.7))
        void duplex.write(frame).then(
          () => said.push([k, wire.written, options.clock.mono()]),
          error => said.push([k, error.code, error.message, options.clock.mono()]),
        )
      wire.fails = chance(0.04)
      if (chance(echoing)) late.push(frame)
      if (chance(0.7)) await timers.advance(pick([0, 3, 4, 5, 6, 12]))
      for (const one of late.splice(0, below(3))) {
        const cut = chance(0.3) ? below(one.length + 1) : one.length
        arrive(one.subarray(0, cut))
        if (chance(0.1)) damage(below(2))
        if (chance(0.9)) arrive(one.subarray(cut))
      }
      if (chance(0.2)) arrive(Uint8Array.from({ length: below(5) }, () => pick([0, 0, 1, 2, 9])))
      if (chance(0.1)) damage(below(2))
      if (k % 100 === 70) for (let n = 0; n < 1100; n++, await timers.advance(5)) arrive(Uint8Array.of(7))
      await timers.advance(pick([0, 1, 4, 5, 12, 19, 20, 21]))
      if (chance(0.01)) said.push(await duplex.open({ lost: () => undefined, degraded: () => undefined }))
      const bytes = digest(0, ...heard.splice(0))
      return [said.splice(0), bytes, damaged.splice(0), options.told.splice(0).length, duplex.tally, timers.armed]
    })
  }
  for (const echoes of [0, 1])
    for (const count of [7, 8, 9, 255, 256, 257, 258, 300]) {
      const { duplex, heard, say, arrive, damage, wire } = line()
      if (echoes) await say(Uint8Array.of(5))
      for (let n = 0; n < count; n++) await say(Uint8Array.of(1, n & 0xff, 2), n === 200 ? Uint8Array.of(1) : null)
      if (count === 9) damage(4)
      arrive(Uint8Array.of(1, (count - 1) & 0xff, 2, 1, 0, 2, 1, 3, 2, 5, 0))
      trace.say(`${echoes} ${count}`, [
        duplex.name,
        Buffer.concat(heard).toString('hex'),
        duplex.tally,
        duplex.counters === wire.counters,
      ])
    }
  trace.compare()
})
