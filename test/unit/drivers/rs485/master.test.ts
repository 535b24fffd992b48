// Two masters on one bus by mistake, with clocks that only the test moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TurnParts } from '../../../../drivers/rs485/bus'
import { MasterMedium } from '../../../../drivers/rs485/master'
import { SlaveMedium } from '../../../../drivers/rs485/slave'
import { ManualClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../../src/links/contracts'
import { ManualTimers } from '../../../../src/links/timers'
import { isPoll } from '../../../../src/protocol/turns'
import { dataPacket } from '../../../lib/packets'
import { prng } from '../../../lib/random'

/** Packets on two wires: 1 ms each, heard by all others. */
class Wires {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly #ends: { handler: PacketHandler; open: boolean }[] = []
  /** each end hears itself so many ms later */
  echoMs = 0
  /** who polled, and when */
  readonly polls: { from: string; at: number }[] = []

  parts(name: string, seed: number): TurnParts {
    const { clock, timers } = this
    const end = { handler: (() => undefined) as PacketHandler, open: false }
    this.#ends.push(end)
    const counters = { rx: 0, tx: 0, errors: 0 }
    const send = (packet: Uint8Array): Promise<boolean> => {
      if (isPoll(packet)) this.polls.push({ from: name, at: clock.mono() })
      const bytes = packet.slice()
      return new Promise(resolve => {
        timers.after(1, () => {
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

  async master(name: string, seed: number) {
    const options = { name, bus: 'bus', slaves: [7], turnTimeoutMs: 50, turnBytes: 512, pollIntervalMs: 100 }
    const medium = new MasterMedium({ ...options, exclusive: run => run() }, this.parts(name, seed))
    const complaints: string[] = []
    const got: Uint8Array[] = []
    medium.onPacket(packet => got.push(packet.slice()))
    await medium.open({ lost: () => undefined, degraded: reason => complaints.push(reason) })
    return { medium, complaints, got }
  }

  pollsOf(name: string, since: number): number {
    return this.polls.filter(({ from, at }) => from === name && at >= since).length
  }
}

for (let seed = 1; seed <= 5; seed++)
  test(`a second master comes (${seed}): it keeps silent and says why, and takes over when the first leaves`, async () => {
    const wires = new Wires()
    const { clock, timers } = wires
    const slave = new SlaveMedium(
      { name: 's', bus: 'bus', address: () => 7, turnTimeoutMs: 50, expectEnd: () => undefined },
      wires.parts('s', 99),
    )
    await slave.open({ lost: () => undefined, degraded: () => undefined })
    const one = await wires.master('one', seed)
    await timers.advance(2000)
    assert.ok(wires.pollsOf('one', 0) > 15)
    const since = clock.mono()
    const two = await wires.master('two', seed + 50)
    const sent = slave.send(dataPacket(1))
    await timers.advance(30_000)
    assert.ok(wires.pollsOf('one', since) > 200)
    assert.equal(wires.pollsOf('two', since), 0)
    assert.equal(await sent, true)
    assert.deepEqual([one.got.length, one.complaints], [1, []])
    assert.deepEqual(two.complaints, ['another master is on this bus: only one may ask'])

    await one.medium.close()
    await timers.advance(11_000)
    const later = slave.send(dataPacket(2))
    await timers.advance(1000)
    assert.equal(await later, true)
    assert.equal(two.complaints.at(-1), '')
    void two.medium.close()
    await timers.advance(1000)
  })

test('two masters begin in the same moment, five times: one goes on alone', async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const wires = new Wires()
    const ends = [await wires.master('one', seed), await wires.master('two', seed + 50)]
    await wires.timers.advance(15_000)
    const since = wires.clock.mono()
    await wires.timers.advance(60_000)
    // nobody answers here, so the one that goes on asks every 15 s
    const polls = ['one', 'two'].map(name => wires.pollsOf(name, since))
    assert.ok(Math.max(...polls) >= 3, `${polls} polls`)
    assert.ok(ends.some(({ complaints }) => complaints.some(text => /another master/.test(text))))
    for (const { medium } of ends) void medium.close()
    await wires.timers.advance(1000)
  }
})

test('an echo of its own polls that comes late is no other master', async () => {
  const wires = new Wires()
  wires.echoMs = 130
  const { medium, complaints } = await wires.master('one', 1)
  await wires.timers.advance(10_000)
  assert.deepEqual(complaints, ['no answer from 7'])
  assert.equal(medium.counters.detail!.foreign_polls, 0)
  void medium.close()
  await wires.timers.advance(1000)
})
