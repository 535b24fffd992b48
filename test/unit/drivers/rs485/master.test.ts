// Two masters on one bus by mistake, with clocks that only the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TurnParts } from '../../../../drivers/rs485/bus'
import { MasterMedium } from '../../../../drivers/rs485/master'
import { SlaveMedium } from '../../../../drivers/rs485/slave'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../../src/links/contracts'
import { buildPoll, isPoll } from '../../../../src/protocol/polling-turns'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dataPacket } from '../../../lib/packets'
import { prng } from '../../../lib/random'
import { digest, Trace } from '../../../lib/trace'

/** Packets on two wires: 1 ms each, received by all others. */
class Wires {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly #ends: { handler: PacketHandler; open: boolean }[] = []
  /** each end receives its own bytes so many ms later */
  echoMs = 0
  /** who polled, and when */
  readonly polls: { from: string; at: number }[] = []
  /** probability that a packet is lost; 0 by default */
  loses: () => boolean = () => false
  /** probability that the port refuses a packet */
  refuses: () => boolean = () => false
  readonly sentPolls: Uint8Array[] = []

  parts(name: string, seed: number): TurnParts {
    const { clock, timers } = this
    const end = { handler: (() => undefined) as PacketHandler, open: false }
    this.#ends.push(end)
    const counters = { rx: 0, tx: 0, errors: 0 }
    const send = (packet: Uint8Array): Promise<boolean> => {
      if (isPoll(packet)) this.polls.push({ from: name, at: clock.mono() })
      const bytes = packet.slice()
      if (isPoll(packet)) this.sentPolls.push(bytes)
      if (this.refuses()) return Promise.resolve(false)
      return new Promise(resolve => {
        timers.after(1, () => {
          if (this.loses()) return resolve(true)
          for (const other of this.#ends)
            if (other !== end && other.open) other.handler(bytes, { medium: 'RS485', address: 'bus', reply: send })
          resolve(true)
        })
        const back = (): void => end.handler(bytes, { medium: 'RS485', address: 'bus', reply: send })
        if (this.echoMs > 0) timers.after(this.echoMs, back)
      })
    }
    const inner: Medium = {
      name,
      medium: 'RS485',
      maxPacket: 256,
      counters,
      onPacket: handler => {
        end.handler = handler
      },
      open: async () => {
        end.open = true
      },
      close: async () => {
        end.open = false
      },
      send,
    }
    const random = prng(seed)
    return {
      ...{ inner, clock, timers, random, logger: silentLogger },
      silence: () => Promise.resolve(),
      frameSize: packet => packet.length + 3,
      lineMs: bytes => bytes / 10,
    }
  }

  async master(name: string, seed: number, slaves = [7]) {
    const options = { name, bus: 'bus', slaves, turnTimeoutMs: 50, turnBytes: 512, pollIntervalMs: 100 }
    const medium = new MasterMedium({ ...options, exclusive: run => run() }, this.parts(name, seed))
    const complaints: string[] = []
    const got: Uint8Array[] = []
    medium.onPacket(packet => got.push(packet.slice()))
    await medium.open({ lost: () => undefined, degraded: reason => complaints.push(reason) })
    return { medium, complaints, got }
  }

  async slave(aid: number): Promise<SlaveMedium> {
    const options = { name: `s${aid}`, bus: 'bus', address: () => aid, turnTimeoutMs: 50, expectEnd: () => undefined }
    const medium = new SlaveMedium(options, this.parts(options.name, aid))
    await medium.open({ lost: () => undefined, degraded: () => undefined })
    return medium
  }

  pollsOf(name: string, since: number): number {
    return this.polls.filter(({ from, at }) => from === name && at >= since).length
  }
}

for (let seed = 1; seed <= 5; seed++)
  test(`a second master appears (${seed}): it stays silent and says why, and takes over when the first leaves`, async () => {
    const wires = new Wires()
    const { clock, timers } = wires
    const slave = await wires.slave(7)
    const one = await wires.master('one', seed)
    await timers.advance(2000)
    const polls = wires.pollsOf('one', 0)
    assert.ok(polls > 15 && polls <= 21, `${polls} polls of a slave with nothing to say: one in 100 ms`)
    const since = clock.mono()
    const two = await wires.master('two', seed + 50)
    const sent = slave.send(dataPacket(1))
    await timers.advance(30_000)
    assert.ok(wires.pollsOf('one', since) > 200)
    assert.equal(wires.pollsOf('two', since), 0)
    assert.equal(await sent, true)
    assert.deepEqual([one.got.length, one.complaints], [1, []])
    assert.deepEqual(two.complaints, ['another master is on this bus: only one may poll'])

    await one.medium.close()
    await timers.advance(11_000)
    const later = slave.send(dataPacket(2))
    await timers.advance(1000)
    assert.equal(await later, true)
    assert.equal(two.complaints.at(-1), '')
    void two.medium.close()
    await timers.advance(1000)
  })

test('two masters that start in the same moment, five times: only one continues', async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const wires = new Wires()
    const ends = [await wires.master('one', seed), await wires.master('two', seed + 50)]
    await wires.timers.advance(15_000)
    const since = wires.clock.mono()
    await wires.timers.advance(60_000)
    // no slave answers here, so the remaining master polls every 15 s
    const polls = ['one', 'two'].map(name => wires.pollsOf(name, since))
    assert.ok(Math.max(...polls) >= 3, `${polls} polls`)
    assert.ok(ends.some(({ complaints }) => complaints.some(text => /another master/.test(text))))
    for (const { medium } of ends) void medium.close()
    await wires.timers.advance(1000)
  }
})

test('a late echo of its own polls is no other master', async () => {
  const wires = new Wires()
  wires.echoMs = 130
  const { medium, complaints } = await wires.master('one', 1)
  await wires.timers.advance(10_000)
  assert.deepEqual(complaints, ['no answer from 7'])
  assert.equal(medium.counters.detail!.foreign_polls, 0)
  void medium.close()
  await wires.timers.advance(1000)
})

test('a dead slave costs only its own time-out, is polled less often, is named, and returns to normal when it answers', async () => {
  const wires = new Wires()
  const { clock, timers } = wires
  const alive = await wires.slave(7)
  const { medium, complaints, got } = await wires.master('one', 1, [7, 8])
  await timers.advance(2000)
  assert.deepEqual(complaints, ['no answer from 8'])
  const missed = medium.counters.detail!.missed_turns!
  const since = clock.mono()
  for (let k = 0; k < 20; k++) {
    const sent = alive.send(dataPacket(k))
    await timers.advance(1000)
    assert.equal(await sent, true)
  }
  assert.equal(got.length, 20)
  const lost = medium.counters.detail!.missed_turns! - missed
  // after 1, 2, 4, 8 s and then every 15 s
  assert.ok(lost >= 1 && lost <= 5, `${lost} turns lost in ${clock.mono() - since} ms`)
  const back = await wires.slave(8)
  const sent = back.send(dataPacket(99))
  await timers.advance(15_000)
  assert.deepEqual([await sent, got.length, complaints.at(-1)], [true, 21, ''])
  for (const end of [medium, alive, back]) void end.close()
  await timers.advance(1000)
})

test('a master on a bus that loses packets and hears foreign ones behaves as master.txt has it', async () => {
  const trace = new Trace('unit/drivers/rs485/master.txt')
  const wires = new Wires()
  const { clock, timers } = wires
  const next = prng(12)
  wires.loses = () => next() < 0.1
  wires.refuses = () => next() < 0.02
  const slaves = [await wires.slave(7), await wires.slave(8)]
  const one = await wires.master('one', 3, [7, 8, 9, 7])
  const stranger = wires.parts('stranger', 9).inner
  await stranger.open({ lost: () => undefined, degraded: () => undefined })
  const sent: unknown[] = []
  let seen = 0
  for (let k = 0; k < 240; k++) {
    for (const [n, from] of [one.medium, ...slaves].entries())
      for (let more = Math.floor(next() * 3.2) - 1; more > 0; more--)
        void from.send(dataPacket(10 * k + more)).then(done => sent.push([n, done]))
    const polls = wires.polls.at(-1)
    if (next() < 0.2) one.medium.heard()
    if (next() < 0.04) void stranger.send(wires.sentPolls.at(-62 - Math.floor(next() * 6)) ?? Uint8Array.of(1))
    if (next() < 0.06) void stranger.send(Uint8Array.of(0x0b, 0, 5))
    if (next() < 0.005) void stranger.send(buildPoll(k, 7, 512))
    if (next() < 0.01) void one.medium.send(new Uint8Array(257))
    if (k === 150) await closed(one.medium, timers)
    if (k === 160) await one.medium.open({ lost: () => undefined, degraded: reason => one.complaints.push(reason) })
    await timers.advance([1, 9, 40, 200, 700][Math.floor(next() * 5)]!)
    seen = digest(seen, ...wires.polls.map(({ at }) => at), ...one.got)
    if (k % 8 === 7)
      trace.say(`${k}`, [
        clock.mono(),
        seen,
        polls,
        sent.splice(0).length,
        one.got.splice(0).length,
        wires.polls.splice(0).length,
        one.complaints.splice(0),
        one.medium.counters,
        slaves.map(({ counters }) => counters),
      ])
  }
  for (const end of [one.medium, ...slaves]) void end.close()
  await timers.advance(1000)
  trace.compare()
})

/** Its close, while the clock runs. */
async function closed(medium: Medium, timers: ManualTimers): Promise<void> {
  const done = medium.close()
  await timers.advance(500)
  await done
}
