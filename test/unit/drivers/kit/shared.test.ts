import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedMedium } from '../../../../drivers/kit/shared'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, OpenableEvents, PacketHandler } from '../../../../src/links/contracts'
import { dice, digest, Trace } from '../../../lib/trace'

class Radio implements Medium {
  readonly name = 'radio'
  readonly medium = 'TEST'
  readonly maxPacket = 100
  readonly counters = { rx: 0, tx: 0, errors: 0, detail: { noise: 3 } }
  readonly sent: number[] = []
  opens = 0
  closes = 0
  failure: Error | undefined
  /** opening and closing wait for release() */
  slow = false
  readonly #paused: (() => void)[] = []
  events: OpenableEvents | undefined
  handler: PacketHandler = () => undefined

  onPacket(handler: PacketHandler): void {
    this.handler = handler
  }
  async open(events: OpenableEvents): Promise<void> {
    assert.equal(this.events, undefined, 'opened twice')
    await this.#pause()
    if (this.failure) throw this.failure
    this.opens++
    this.events = events
  }
  async close(): Promise<void> {
    this.closes++
    this.events = undefined
    await this.#pause()
    if (this.failure) throw this.failure
  }
  #pause(): Promise<void> {
    return this.slow ? new Promise(resolve => this.#paused.push(resolve)) : Promise.resolve()
  }
  release(): void {
    for (const resolve of this.#paused.splice(0)) resolve()
  }
  async send(packet: Uint8Array): Promise<boolean> {
    this.sent.push(packet[0]!)
    return true
  }
  gets(first: number): void {
    this.handler(Uint8Array.of(first, 0, 1), { medium: 'TEST', address: 'x', reply: async () => true })
  }
}

const noted = () => {
  const lost: string[] = []
  const complaints: string[] = []
  return {
    lost,
    complaints,
    events: { lost: (r: string) => lost.push(r), degraded: (r: string) => complaints.push(r) },
  }
}

let keys = 0
function shared() {
  const key = `key-${keys++}`
  const radios: Radio[] = []
  const make = () => {
    const radio = new Radio()
    radios.push(radio)
    return radio
  }
  const member = (name: string, mode: 'send' | 'listen', settings: unknown = {}) => {
    const medium = sharedMedium('TEST', { name, mode, key, settings, make, logger: silentLogger })
    const got: number[] = []
    medium.onPacket(packet => got.push(packet[0]!))
    return { medium, got, ...noted() }
  }
  return { radios, member }
}

test('the first user opens, the last closes', async () => {
  const { radios, member } = shared()
  const a = member('a', 'send')
  const b = member('b', 'listen')
  assert.equal(radios.length, 1)
  await Promise.all([a.medium.open(a.events), b.medium.open(b.events)])
  assert.equal(radios[0]!.opens, 1)
  await a.medium.close()
  assert.equal(radios[0]!.closes, 0)
  await b.medium.close()
  await b.medium.close()
  assert.equal(radios[0]!.closes, 1)
})

test('answers go to the sender, other packets to the listener; a single user gets all', async () => {
  const { radios, member } = shared()
  const a = member('a', 'send')
  const b = member('b', 'listen')
  await a.medium.open(a.events)
  await b.medium.open(b.events)
  for (const first of [0x0a, 0x3f, 0x05, 0x09]) radios[0]!.gets(first)
  assert.deepEqual(
    [a.got, b.got],
    [
      [0x0a, 0x05],
      [0x3f, 0x09],
    ],
  )
  await b.medium.close()
  radios[0]!.gets(0x3f)
  assert.deepEqual(a.got, [0x0a, 0x05, 0x3f])
  await a.medium.close()
  await b.medium.open(b.events)
  radios[0]!.gets(0x0a)
  assert.deepEqual(b.got, [0x3f, 0x09, 0x0a])
  await b.medium.close()
})

test('a loss is reported to all users, and the next opening reopens it', async () => {
  const { radios, member } = shared()
  const a = member('a', 'send')
  const b = member('b', 'listen')
  await a.medium.open(a.events)
  await b.medium.open(b.events)
  radios[0]!.events!.degraded('weak')
  radios[0]!.events!.lost('unplugged')
  assert.deepEqual([a.lost, b.lost, a.complaints], [['unplugged'], ['unplugged'], ['weak']])
  await a.medium.close()
  await a.medium.open(a.events)
  assert.equal(radios[0]!.opens, 2)
  // a late close by the other user of the lost one leaves the new opening alone
  await b.medium.close()
  assert.equal(await a.medium.send(Uint8Array.of(9)), true)
  assert.equal(radios[0]!.closes, 1)
  await a.medium.close()
})

test('other settings are refused while it is open, and accepted when it is closed', async () => {
  const { radios, member } = shared()
  const a = member('a', 'send', { baudrate: 9600 })
  await a.medium.open(a.events)
  const b = member('b', 'listen', { baudrate: 19200 })
  await assert.rejects(b.medium.open(b.events), /is open for a with other settings/)
  await a.medium.close()
  await b.medium.open(b.events)
  const c = member('c', 'send', { baudrate: 19200 })
  await c.medium.open(c.events)
  assert.deepEqual(
    radios.map(({ opens }) => opens),
    [1, 1],
  )
  await assert.rejects(a.medium.open(a.events), /is open for b with other settings/)
  await b.medium.close()
  await c.medium.close()
})

test('a failed opening fails for all that waited for it, and may be retried', async () => {
  const { radios, member } = shared()
  const a = member('a', 'send')
  const b = member('b', 'listen')
  radios[0]!.failure = new Error('no such port')
  const tries = await Promise.allSettled([a.medium.open(a.events), b.medium.open(b.events)])
  assert.deepEqual(
    tries.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  radios[0]!.failure = undefined
  await b.medium.open(b.events)
  assert.equal(radios[0]!.opens, 1)
  await b.medium.close()
})

test('an exception in one handler does not keep the packet from the next', async () => {
  const { radios, member } = shared()
  const a = member('a', 'listen')
  const b = member('b', 'listen')
  a.medium.onPacket(() => {
    throw new Error('bad handler')
  })
  await a.medium.open(a.events)
  await b.medium.open(b.events)
  radios[0]!.gets(0x3f)
  assert.deepEqual(b.got, [0x3f])
  assert.equal(a.medium.counters.errors, 1)
  await a.medium.close()
  await b.medium.close()
})

test('a member closed while it opens releases the hardware', async () => {
  const { radios, member } = shared()
  const a = member('a', 'send')
  const opening = a.medium.open(a.events)
  await a.medium.close()
  await assert.rejects(opening, { code: 'LINK_DOWN' })
  assert.equal(radios[0]!.events, undefined)
})

test('four media that share one device behave as recorded', async () => {
  const trace = new Trace('unit/drivers/kit/shared-trace.txt')
  const { below, chance, pick } = dice(31)
  for (let round = 0; round < 8; round++) {
    const { radios, member } = shared()
    const members = [0, 1, 2, 3].map(k => member(`m${k}`, pick(['send', 'listen']), { of: round < 4 ? 0 : k >> 1 }))
    const said: unknown[] = []
    let waiting = 0
    const note = (what: unknown[], run: Promise<unknown>): void => {
      waiting++
      run
        .then(value => said.push([...what, value]))
        .catch(error => said.push([...what, error.code, error.message, error.hint]))
        .finally(() => waiting--)
    }
    await trace.steps(`${round}`, 120, 10, async k => {
      const at = below(4)
      const { medium, events } = members[at]!
      const radio = pick(radios)
      radio.failure = chance(0.1) ? new Error(`failure ${k}`) : undefined
      radio.slow = chance(0.3)
      const then = radio.events
      if (chance(0.5)) note([k, at, 'open'], medium.open(events))
      if (chance(0.2)) note([k, at, 'close'], medium.close())
      if (chance(0.5)) note([k, at, 'sent'], medium.send(Uint8Array.of(below(40))))
      if (chance(0.5)) await new Promise(setImmediate)
      if (chance(0.3)) radio.events?.degraded(pick(['', `weak ${k}`]))
      if (chance(0.1)) radio.events?.lost(`lost ${k}`)
      if (chance(0.05)) then?.lost('long ago')
      if (chance(0.05)) then?.degraded('long ago')
      for (const first of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 63, 128]) if (chance(0.2)) radio.gets(first)
      if (chance(0.7)) for (const one of radios) one.release()
      await new Promise(setImmediate)
      const states = members.map(
        ({ got, lost, complaints, medium: { counters, maxPacket, acknowledges, airtime } }) => [
          ...[got.splice(0), lost.splice(0), complaints.splice(0)],
          ...[counters, maxPacket, acknowledges, airtime],
        ],
      )
      return [
        said.splice(0),
        waiting,
        digest(0, Buffer.from(JSON.stringify(states))),
        radios.map(({ opens, closes, sent }) => [opens, closes, sent.length]),
      ]
    })
    for (const { medium } of members) void medium.close().catch(error => trace.say('close', error.message))
    for (const radio of radios) radio.release()
    await new Promise(setImmediate)
    for (const radio of radios) radio.release()
    await new Promise(setImmediate)
  }
  trace.compare()
})
