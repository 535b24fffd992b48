import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { createRs485 } from '../../../../drivers/rs485'
import { type Clock, systemClock } from '../../../../src/lib/clock'
import type { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketOrigin } from '../../../../src/links/contracts'
import { buildPoll, buildTurnEnd, parsePoll } from '../../../../src/protocol/polling-turns'
import { frameSerial, unframeSerial } from '../../../../src/wire/serial'
import { until } from '../../../lib/gateway'
import { dataPacket } from '../../../lib/packets'
import { type Plug, Ptys } from '../../../lib/ptys'
import { prng } from '../../../lib/random'
import { damaged, SerialBus } from '../../../lib/serialbus'

const context = { clock: systemClock, logger: silentLogger }
const dir = mkdtempSync(join(tmpdir(), 'rs485-'))
let ptys: Ptys
let ports = 0
before(() => {
  ptys = new Ptys()
})
after(() => {
  ptys.close()
  rmSync(dir, { recursive: true })
})

const plugs = (count: number): Promise<Plug[]> =>
  Promise.all(Array.from({ length: count }, () => ptys.port(join(dir, `p${ports++}`))))

interface End {
  medium: Medium
  got: { packet: Buffer; origin: PacketOrigin }[]
  lost: string[]
  complaints: string[]
}

/** A clock at a twentieth of the speed, so that no echo is late, however busy this machine is; `skip` moves it. */
function slowTime() {
  let skipped = 0
  return {
    wall: systemClock.wall,
    mono: () => systemClock.mono() / 20 + skipped,
    skip: (ms: number) => {
      skipped += ms
    },
  }
}

async function open(
  t: TestContext,
  plug: Plug,
  options: Record<string, unknown>,
  clock: Clock = systemClock,
): Promise<End> {
  const medium = createRs485(
    `rs485-${plug.id}`,
    { port: plug.path, baudrate: 1_000_000, direction: 'auto_hardware', ...options },
    { ...context, clock },
  )
  const end: End = { medium, got: [], lost: [], complaints: [] }
  medium.onPacket((packet, origin) => end.got.push({ packet: Buffer.from(packet), origin }))
  await medium.open({ lost: reason => end.lost.push(reason), degraded: reason => end.complaints.push(reason) })
  t.after(() => medium.close())
  return end
}

/** ms: short enough for tests that lose turns, long enough for two processes on a busy machine */
const LOST = 200
/** for tests in which no turn may time out, however busy this machine is */
const NEVER = 10_000
const master = (slaves: number[], turn_timeout_ms = LOST) => ({
  role: 'master',
  mode: 'listen',
  slaves,
  turn_timeout_ms,
  poll_interval_ms: 5,
})
const slave = (address: number, turn_timeout_ms = LOST) => ({ role: 'slave', address, turn_timeout_ms })

test('R17: a port whose driver cannot switch the direction is refused, and the message says what to configure then', async () => {
  const [plug] = await plugs(1)
  const medium = createRs485('r', { port: plug!.path }, context)
  await assert.rejects(medium.open({ lost: () => {}, degraded: () => {} }), (error: OsError) => {
    assert.match(error.message, /does not switch the direction/)
    assert.match(error.hint, /auto_hardware/)
    return error.code === 'UNSUPPORTED'
  })
  await medium.close()
})

test('R17: two ends with an echo, NULs before every frame and noise between them: all packets arrive, none of its own', async t => {
  const [a, b] = await plugs(2)
  const random = prng(7)
  new SerialBus([a!, b!], {
    echo: true,
    noise: bytes => Buffer.concat([Buffer.from([0]), bytes, Buffer.from([Math.floor(random() * 256) | 0x80])]),
  })
  const one = await open(t, a!, {}, slowTime())
  const two = await open(t, b!, { mode: 'listen' }, slowTime())
  for (let k = 0; k < 50; k++) assert.equal(await one.medium.send(dataPacket(k)), true)
  await until('everything arrived', () => two.got.length === 50)
  assert.deepEqual(
    two.got.map(({ packet }) => packet),
    Array.from({ length: 50 }, (_, k) => Buffer.from(dataPacket(k))),
  )
  assert.equal(one.got.length, 0)
  await two.got[0]!.origin.reply(Uint8Array.of(0x09, 0, 1))
  await until('answered', () => one.got.length === 1)
  assert.equal(one.medium.counters.detail!.echoes, 50)
  // at least that of the first frame: later ones may follow noise without silence between
  assert.ok(two.medium.counters.detail!.nuls! > 0)
})

test('both ends send at the same time: nothing is lost, since neither starts while the other sends', async t => {
  const [a, b] = await plugs(2)
  new SerialBus([a!, b!])
  const one = await open(t, a!, {})
  const two = await open(t, b!, {})
  const sends = Array.from({ length: 20 }, (_, k) => [
    one.medium.send(dataPacket(k)),
    two.medium.send(dataPacket(100 + k)),
  ])
  await Promise.all(sends.flat())
  await until('everything arrived', () => one.got.length === 20 && two.got.length === 20)
})

test('a master and three slaves: each sends only in its turn, and is identified by its address', async t => {
  const [m, ...rest] = await plugs(4)
  const bus = new SerialBus([m!, ...rest], { echo: true })
  // all are open before the first is polled
  const clock = slowTime()
  const slaves = await Promise.all(rest.map((plug, k) => open(t, plug, slave(7 + k, NEVER), clock)))
  const chief = await open(t, m!, master([7, 8, 9], NEVER), clock)
  clock.skip(1000) // it has listened
  await Promise.all(
    slaves.flatMap((end, k) => Array.from({ length: 15 }, (_, n) => end.medium.send(dataPacket(1000 * k + n)))),
  )
  await until('everything arrived', () => chief.got.length === 45)
  for (let k = 0; k < 3; k++) {
    const mine = chief.got.filter(({ origin }) => origin.address === `${m!.path}#${7 + k}`)
    assert.deepEqual(
      mine.map(({ packet }) => packet),
      Array.from({ length: 15 }, (_, n) => Buffer.from(dataPacket(1000 * k + n))),
    )
  }
  // the master's own packets are for all, and no slave receives another's
  await chief.medium.send(dataPacket(5))
  await until('it is received', () => slaves.every(({ got }) => got.length === 1))
  for (const { got } of slaves) assert.equal(got[0]!.origin.address.endsWith('#master'), true)
  assert.equal(chief.medium.counters.detail!.missed_turns, 0)
  // between two polls only the polled slave has sent
  let asked: number | undefined
  for (const { from, bytes } of bus.log) {
    // a poll may arrive in one chunk with a packet before it
    const at = bytes.lastIndexOf(Buffer.from([0x4f, 0x53, 0x4e, 0x02]))
    if (from === m && at >= 0) asked = bytes.readUInt32BE(at + 4)
    else if (from !== m) assert.equal(rest.indexOf(from), asked! - 7)
  }
})

test('a slave that reads its poll late, after that of another, stays silent and sends in its next turn', async t => {
  const [m] = await plugs(1)
  const end = await open(t, m!, slave(7))
  const packets: Buffer[] = []
  let rest = Buffer.alloc(0)
  m!.onBytes = bytes => {
    rest = Buffer.concat([rest, bytes])
    for (const packet of [Buffer.from(dataPacket(1)), Buffer.from(buildTurnEnd(3, 7, 0))])
      if (rest.includes(packet) && !packets.some(known => known.equals(packet))) packets.push(packet)
  }
  const sent = end.medium.send(dataPacket(1))
  const poll = (seq: number, aid: number): Uint8Array => frameSerial(buildPoll(seq, aid, 500), 'rs485')
  m!.write(Buffer.concat([poll(1, 7), poll(2, 8)]))
  await until('it was late', () => end.medium.counters.detail!.late_turns === 1)
  assert.equal(rest.length, 0)
  m!.write(poll(3, 7))
  assert.equal(await sent, true)
  await until('packet and end of the turn', () => packets.length === 2)
})

test('a dead slave is named, costs the others nothing, and is polled again when it returns', async t => {
  const [m, a, b] = await plugs(3)
  const bus = new SerialBus([m!, a!])
  const chief = await open(t, m!, master([1, 2]))
  const alive = await open(t, a!, slave(1))
  await until('named', () => chief.complaints.includes('no answer from 2'))
  for (let k = 0; k < 20; k++) await alive.medium.send(dataPacket(k))
  await until('everything arrived', () => chief.got.length === 20)
  bus.join(b!)
  const back = await open(t, b!, slave(2))
  await back.medium.send(dataPacket(99))
  await until('back', () => chief.complaints.at(-1) === '')
  assert.equal(chief.got.length, 21)
})

test('both masters notice a second master, and only one of them continues', async t => {
  const [m, n, a] = await plugs(3)
  new SerialBus([m!, n!, a!])
  const one = await open(t, m!, master([1]))
  const end = await open(t, a!, slave(1))
  await end.medium.send(dataPacket(0))
  await until('works', () => one.got.length === 1)
  const two = await open(t, n!, master([1]))
  await until('noticed', () =>
    [one, two].some(({ complaints }) => complaints.some(text => /another master/.test(text))),
  )
  const sent = end.medium.send(dataPacket(1))
  await until('one continues', () => one.got.length + two.got.length >= 2)
  assert.equal(await sent, true)
})

test('noise on a bus of several loses the packets it hits, and never delivers a wrong one', async t => {
  const [m, a, b] = await plugs(3)
  const random = prng(11)
  let noisy = false
  new SerialBus([m!, a!, b!], {
    noise: bytes => damaged(bytes, random, noisy ? 0.3 : 0),
  })
  const chief = await open(t, m!, master([1, 2]))
  const slaves = [await open(t, a!, slave(1)), await open(t, b!, slave(2))]
  noisy = true
  await Promise.all(
    slaves.flatMap((end, k) => Array.from({ length: 60 }, (_, n) => end.medium.send(dataPacket(1000 * k + n)))),
  )
  noisy = false
  await Promise.all(slaves.map((end, k) => end.medium.send(dataPacket(1000 * k + 999))))
  await until('the last came', () =>
    [0, 1].every(k => chief.got.some(({ packet }) => packet.equals(Buffer.from(dataPacket(1000 * k + 999))))),
  )
  const known = new Set(
    [0, 1].flatMap(k => [...Array(60).keys(), 999].map(n => Buffer.from(dataPacket(1000 * k + n)).toString('hex'))),
  )
  for (const { packet } of chief.got) assert.ok(known.has(packet.toString('hex')), packet.toString('hex'))
  assert.ok(chief.got.length > 60, `${chief.got.length} of 122`)
})

test('a slave that is not polled queues a limited number of packets and reports what it refused', async t => {
  const [a] = await plugs(1)
  const end = await open(t, a!, slave(1))
  const sent = Array.from({ length: 70 }, (_, k) => end.medium.send(dataPacket(k)))
  assert.deepEqual(await Promise.all(sent.slice(64)), Array(6).fill(false))
  assert.deepEqual([end.medium.counters.detail!.waiting, end.medium.counters.detail!.refused], [64, 6])
  await end.medium.close()
  assert.deepEqual(await Promise.all(sent), Array(70).fill(false))
})

test('a peer that does not know turns answers the PING, and its answer ends the turn', async t => {
  const [m, a] = await plugs(2)
  const chief = await open(t, m!, master([3], NEVER))
  a!.plugged = true
  m!.onBytes = bytes => {
    const poll = parsePoll(unframeSerial(bytes, 'rs485') ?? new Uint8Array())
    if (poll) m!.write(frameSerial(Uint8Array.of(0x0a, poll.seq >> 8, poll.seq & 0xff), 'rs485'))
  }
  await until('asked', () => chief.medium.counters.detail!.turns! > 10)
  assert.equal(chief.medium.counters.detail!.missed_turns, 0)
})
