// The same packet over two media at the same time (decision 0018): one record, acknowledged on both after the commit, whatever
// frames the two paths used.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Receive } from '../../../../src/gateway/receive/receive'
import { Receivers } from '../../../../src/gateway/receive/receivers'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../../src/links/contracts'
import { Registry } from '../../../../src/links/registry'
import { Supervisor } from '../../../../src/links/supervisor'
import type { Fact } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { addToFrame, finishFrame, startFrame } from '../../../../src/protocol/delivery/frame'
import { DuplicateFilter } from '../../../../src/protocol/duplicates'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { NodeClock } from '../../../../src/protocol/time'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { ByteWriter } from '../../../../src/wire/cursor'
import { ManualClock } from '../../../lib/manual'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000

class FakeMedium implements Medium {
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly maxPacket = 1400
  opens = 0
  closes = 0
  readonly replies: Buffer[] = []
  #handler: PacketHandler = () => undefined

  constructor(
    readonly name: string,
    readonly medium: string,
    readonly options: Record<string, unknown>,
  ) {}
  async open(): Promise<void> {
    this.opens++
  }
  async close(): Promise<void> {
    this.closes++
  }
  async send(): Promise<boolean> {
    return true
  }
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }
  hear(packet: Uint8Array): void {
    const reply = async (bytes: Uint8Array) => this.replies.push(Buffer.from(bytes)) > 0
    this.#handler(packet, { medium: this.medium, address: `${this.name}:1`, reply })
  }
}

/** Receivers over media that only get what they receive, and a log that commits on request. */
function world(flags: Record<string, boolean> = { udp: true, tcp: true }) {
  const made: FakeMedium[] = []
  const clock = new ManualClock(T0)
  const time = new NodeClock(clock)
  const kept: Fact[] = []
  let committedSeq = 0
  let waiting: (() => void)[] = []
  const log = {
    get lastSeq() {
      return kept.length
    },
    get committedSeq() {
      return committedSeq
    },
    appendFact: (fact: Fact) => kept.push(fact),
    committed: () => new Promise<void>(done => waiting.push(done)),
  }
  const receive = new Receive({
    log: log as never,
    receiver: new Receiver({ units, clock: time }),
    duplicates: new DuplicateFilter(),
    pickers: new WirePickers(units, 4),
    protocol: new HandshakeManager({}, { clock: time, requireOpenRequest: true }),
    time,
    logger: silentLogger,
    ackCommitMs: 100,
    onFact: () => undefined,
  })
  const driver = (medium: string) => async () => ({
    medium,
    create: (name: string, options: unknown) => {
      if ((options as { port: number }).port === 1) throw new OsError('CONFIG_INVALID', 'port: 1 is refused')
      made.push(new FakeMedium(name, medium, options as Record<string, unknown>))
      return made.at(-1)!
    },
  })
  const supervisor = new Supervisor()
  const config = { get: (key: string) => flags[key.split('.').at(-1)!] }
  const receivers = new Receivers(
    {
      config: config as never,
      clock,
      logger: silentLogger,
      supervisor,
      registry: new Registry({ media: { UDP: driver('UDP'), TCP: driver('TCP') } }),
      identity: { aid: 1, installId: 'test', onAssigned: () => () => undefined },
      trueNow: () => time.now(),
    },
    receive,
  )
  const commit = async (): Promise<void> => {
    committedSeq = kept.length
    for (const done of waiting.splice(0)) done()
    waiting = []
    await new Promise(setImmediate)
  }
  return { receivers, receive, supervisor, made, kept, commit, flags }
}

const udp = { name: 'a', medium: 'udp' } as never
const tcp = { name: 'b', medium: 'TCP', host: '::', port: 4000, tls: { cert: 'x' } } as never

test('the same packets over UDP and TCP are stored once and acknowledged on both after the commit', async () => {
  const { receivers, receive, made, kept, commit } = world()
  await receivers.apply([udp, tcp])
  // two paths of one gateway: separate epoch, templates and TIDs, and key frames at other times
  const roads = [
    { medium: made[0]!, epoch: 11, encoder: new UplinkEncoder({ aid: 9, units, firstTid: 3, fullEvery: 3 }) },
    {
      medium: made[1]!,
      epoch: 99,
      encoder: new UplinkEncoder({ aid: 9, units, firstTid: 40, fullEvery: 5, diffBase: 'last' }),
    },
  ]
  const frames = new Set<string>()
  for (let k = 1; k <= 20; k++) {
    for (const { medium, epoch, encoder } of k % 2 ? roads : [...roads].reverse()) {
      const sensors = [{ id: 's', status: 'OK', unit: 'K', value: 290 + k / 10 }]
      const packet = encoder.encode({ id: 'D', state: 'ONLINE', tRaw: T0 + k, aid: 9, sensors }).bytes
      frames.add(Buffer.from(packet).toString('hex'))
      const writer = new ByteWriter(new Uint8Array(300))
      startFrame(writer, epoch, 1, k)
      addToFrame(writer, packet)
      medium.hear(finishFrame(writer, 1).slice())
    }
    if (k === 19)
      assert.deepEqual(
        made.map(({ replies }) => replies.length),
        [0, 0],
        'nothing before the commit',
      )
  }
  assert.equal(frames.size, 40, 'no frame was like another')
  assert.equal(kept.length, 20)
  assert.equal(receive.counters.duplicates, 20)
  await commit()
  for (const { medium, epoch } of roads) {
    const answer = medium.replies.at(-1)!
    assert.deepEqual([answer.readUInt32BE(3), answer.readUInt32BE(7)], [epoch, 20])
  }
})

test('apply closes removed or changed receivers, creates new ones and leaves the others; options are passed on unchanged', async () => {
  const { receivers, supervisor, made, flags } = world()
  assert.deepEqual((await receivers.apply([udp, tcp])).added, ['a', 'b'])
  await supervisor.tried()
  assert.deepEqual(made[1]!.options, { mode: 'listen', host: '::', listen_host: '::', port: 4000, tls: { cert: 'x' } })
  assert.deepEqual([made[0]!.options.listen_host, made[0]!.options.port], ['0.0.0.0', 8080])
  const third = await receivers.apply([
    udp,
    { ...(tcp as object), port: 4001 } as never,
    { name: 'c', medium: 'LoRa' } as never,
  ])
  assert.deepEqual(third, { added: ['c'], removed: [], changed: ['b'], kept: ['a'] })
  await supervisor.tried()
  assert.deepEqual([made[0]!.opens, made[0]!.closes, made[1]!.closes, made[2]!.opens], [1, 0, 1, 1])
  assert.equal(supervisor.links().c!.state, 'down')
  flags.udp = false
  assert.deepEqual((await receivers.apply([udp])).changed, ['a'])
  await new Promise(setImmediate)
  const link = supervisor.links().a!
  assert.match(`${link.state} ${link.reason}`, /^down UDP is switched off$/)
  flags.udp = true
  assert.deepEqual((await receivers.apply([udp, { ...(udp as object), port: 1 } as never])).changed, ['a'])
  assert.deepEqual(Object.keys(supervisor.links()), ['a'], 'a name counts once')
  await receivers.apply([{ name: 'd', medium: 'UDP', port: 1 } as never])
  await new Promise(setImmediate)
  assert.match(supervisor.links().d!.reason!, /port: 1 is refused/)
  await supervisor.stop()
})
