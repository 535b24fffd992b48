// The model of the property tests of DIFF (R10): senders with changing devices, a link that loses, duplicates and delays
// packets, and a receiver that may restart. The senders use both cores. Every sent fact is kept; whatever is decoded must be one of them.
import type { Fact, SensorFact } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import type { DecodedPacket } from '../../../src/pipeline/received'
import { Receiver } from '../../../src/pipeline/receiver'
import type { EncodedFrame, UplinkEncoder } from '../../../src/pipeline/sender'
import { baseCommand } from '../../../src/wire/commands'
import { ManualClock } from '../../lib/manual'
import { dictToFact } from '../../lib/packets'
import { digest } from '../../lib/trace'
import { MemFiles } from '../log/memfiles'
import { difference, partialDifference } from './difference'
import { FULL_EVERY, type Scenario, Sender } from './diffsender'
import { random, units } from './units'

interface Flying {
  frame: EncodedFrame
  fact: Fact
  sender: Sender
  run: UplinkEncoder
  epoch: number
  /** the use of its TID: counts the contents it had */
  life: number
}

/** What defines a template. */
const contentOf = ({ aid, id, state, sensors, extras }: Fact): string =>
  `${aid};${id};${state};${sensors.length};${JSON.stringify(extras)}`

const T0 = 1_710_000_000_000
const STEP_MS = 200
const UNITS = ['K', 'Pa', 'A', '%']
const STATES = ['ONLINE', 'OFFLINE', 'IDLE']

export class World {
  readonly clock = new ManualClock(T0 + 5_000_000_000)
  readonly devices: number
  decoded = 0
  refused = 0
  sent = 0
  /** digest of every frame and of its outcome */
  #course = 0
  /** packets of each template since the link is good */
  readonly #sinceGood = new Map<string, number>()
  #good = false
  readonly #next: () => number
  readonly #files = new MemFiles()
  readonly #due = new Map<number, Flying[]>()
  readonly #past: Flying[] = []
  #answers: { due: number; run: UplinkEncoder; frame: EncodedFrame }[] = []
  readonly #senders: Sender[]
  /** newest committed fact of every content, as a start finds them in the log */
  readonly #log = new Map<string, Fact>()
  /** templates on reused TIDs of which a FULL arrived */
  readonly #arrived = new Set<string>()
  #receiver!: Receiver
  /** of the frame its receiver accepted last */
  #late = false
  /** the last fact has only what its frame carries: its template is from before an unclean stop (X33) */
  #partial = false
  /** bare packets that changed a template, as the log stores them */
  readonly #shapes: { bytes: Uint8Array; aid: number }[] = []
  #fusion: Fusion | null = null
  #step = 0

  constructor(
    readonly scenario: Scenario,
    seed: number,
  ) {
    this.#next = random(seed)
    this.devices = scenario.devices ?? 5
    const names = ['a', 'b', 'c'].slice(0, scenario.senders ?? 1)
    const aids = [42, 7, 4294967294]
    this.#senders = names.map(
      (name, k) => new Sender(this, scenario.sharedAid ? 42 : aids[k]!, scenario.sharedAid ? 's' : name),
    )
    this.#startReceiver()
  }

  int(n: number): number {
    return Math.floor(this.#next() * n)
  }
  #chance(p = 0): boolean {
    return p > 0 && this.#next() < p
  }

  // ---- measured values

  sensors(): SensorFact[] {
    return Array.from({ length: this.int(this.int(10) === 0 ? 14 : 5) }, (_, k) => this.#sensor(`s${k}`))
  }

  #sensor(id: string): SensorFact {
    return this.#measure({ id, status: 'OK', unit: UNITS[this.int(UNITS.length)]!, value: 0 })
  }

  #measure(sensor: SensorFact): SensorFact {
    const { precision = 4 } = this.scenario
    if (this.#chance(0.04)) return { ...sensor, status: 'ERROR', value: null }
    const ampere = sensor.unit === 'A'
    // small currents are sent in mA … pA where three digits need it; the others keep full precision
    const decimals = this.int(precision + (ampere && precision >= 4 ? 6 : 1))
    const value = (this.int(ampere ? 1999 : 1_999_999) - (ampere ? 999 : 999_999)) / 10 ** decimals
    return { ...sensor, status: this.#chance(0.05) ? 'WARM' : 'OK', value: value === 0 ? 0 : value }
  }

  #change(device: Fact): void {
    const { sensors } = device
    device.sensors = sensors.map(sensor => (this.#chance(0.4) ? this.#measure(sensor) : sensor))
    if (this.#chance(0.02) && sensors.length > 0) {
      const k = this.int(sensors.length)
      device.sensors[k] = this.#sensor(sensors[k]!.id)
    }
    if (this.#chance(0.004)) device.state = STATES[this.int(STATES.length)]!
    if (this.#chance(0.002)) device.sensors = this.sensors()
    if (this.#chance(0.001)) device.extras = this.#chance(0.5) ? { msg: `m${this.int(3)}` } : undefined
  }

  // ---- one step

  run(): void {
    const { packets, restartSender, restartReceiver, unbounded, rekey } = this.scenario
    for (; this.sent < packets; this.#step++) {
      this.clock.advance(STEP_MS)
      const sender = this.#senders[this.int(this.#senders.length)]!
      this.#send(sender)
      this.#deliverDue()
      if (unbounded && this.#past.length > 0 && this.#chance(0.05))
        this.#deliver(this.#past[this.int(this.#past.length)]!)
      if (this.#chance(restartSender)) sender.restart()
      if (this.#chance(rekey)) sender.rekey()
      if (this.#chance(restartReceiver)) this.#startReceiver()
    }
  }

  /** From now on every packet arrives, in order. Packets in flight never do. */
  becomeGood(packets: number): void {
    this.#good = true
    this.#due.clear()
    for (const sender of this.#senders) if (sender.key) sender.known = [sender.key]
    // a receiver that forgets all the time never recovers
    if (this.scenario.maxBytes) this.#startReceiver({})
    for (const end = this.sent + packets; this.sent < end; this.#step++) {
      this.clock.advance(STEP_MS)
      this.#send(this.#senders[this.int(this.#senders.length)]!)
      this.#deliverDue()
    }
  }

  #send(sender: Sender): void {
    const again = this.#chance(0.3) ? sender.again.shift() : undefined
    if (again) this.#put(sender, again, sender.encoder.encodeFull(again, undefined, sender.key))
    const device = sender.devices[this.int(sender.devices.length)]!
    this.#change(device)
    // senders with one AID differ in their times
    const k = this.#senders.indexOf(sender)
    const old = this.#chance(this.#good ? 0 : this.scenario.late)
    const tRaw = T0 + this.#step * 16 + k * 4 - (old ? this.int(1000) * 16 + 2 : 0)
    const fact: Fact = { ...device, tRaw }
    if (device.extras === undefined) delete fact.extras
    this.#put(sender, fact, sender.encoder.encode(fact, {}, sender.key))
  }

  #put(sender: Sender, fact: Fact, frame: EncodedFrame): void {
    this.sent++
    const { drop = 0.25, double = 0.15, delay = 0, unbounded } = this.scenario
    const flying = {
      frame,
      fact,
      sender,
      run: sender.encoder,
      epoch: sender.epoch,
      life: this.#life(sender, fact, frame),
    }
    if (unbounded && (this.#past.length < 400 || this.#chance(0.1))) this.#past[this.int(400)] = flying
    if (this.#past.length > 0 && !this.#past[0]) this.#past[0] = flying
    if (!this.#good && this.#chance(drop)) return
    for (let copies = !this.#good && this.#chance(double) ? 2 : 1; copies > 0; copies--) {
      const due = this.#step + (this.#good || this.#next() < 0.6 ? 0 : this.int(delay + 1))
      const list = this.#due.get(due)
      if (list) list.push(flying)
      else this.#due.set(due, [flying])
    }
  }

  #deliverDue(): void {
    const list = this.#due.get(this.#step) ?? []
    this.#due.delete(this.#step)
    for (const flying of list) this.#deliver(flying)
    this.#answers = this.#answers.filter(({ due, run, frame }) => {
      if (due > this.#step) return true
      run.acknowledged(frame.tid, frame.ordinal)
      return false
    })
  }

  // ---- the receiver

  #startReceiver({ maxBytes, maxSources }: Pick<Scenario, 'maxBytes' | 'maxSources'> = this.scenario): void {
    if (this.scenario.receiver === 'fusion') {
      this.#fusion = new Fusion(null, {
        units,
        unitDialect: 'ucum',
        precision: this.scenario.precision,
        clock: this.clock,
        registryDir: null,
        localId: 1,
      })
      return
    }
    const clean = this.#receiver !== undefined && this.#chance(0.5)
    if (clean) this.#receiver.save()
    this.#receiver = new Receiver({
      units,
      precision: this.scenario.precision,
      clock: this.clock,
      files: this.#files,
      registryDir: this.scenario.registry === false ? null : '/r',
      maxBytes,
      maxSources,
      spillDir: this.scenario.spill ? '/spill' : null,
      inboundKey: aid => this.#senders.filter(sender => sender.aid === aid).flatMap(sender => sender.known),
    })
    for (const fact of this.#log.values()) this.#receiver.remember(fact)
    if (clean) return
    for (const { bytes, aid } of this.#shapes) this.#receiver.replay(bytes, aid)
    for (const { aid } of this.#senders) this.#receiver.rebuild(aid)
  }

  #deliver(flying: Flying | undefined): void {
    if (!flying) return
    const { frame, fact, sender, run, epoch } = flying
    if (this.#losesAll(flying)) return
    const { exchange, nacks = true } = this.scenario
    const got = this.#fusion ? this.#plain(frame.bytes) : this.#own(frame.bytes, exchange ? epoch : undefined)
    this.#course = digest(this.#course, frame.bytes, Buffer.from(JSON.stringify(got)))
    if (got === null) {
      this.refused++
      if (this.#good) this.#mustBeNew(flying)
      if (nacks && (this.#good || this.#chance(0.6)) && this.clock.mono() - sender.nackedAt >= 10_000) {
        sender.nackedAt = this.clock.mono()
        sender.encoder.keyFrameNext()
      }
      if (exchange && run === sender.encoder && sender.again.length < 50) sender.again.push(fact)
      return
    }
    this.decoded++
    if (this.#partial && nacks) sender.encoder.keyFrameNext()
    if (baseCommand(frame.cmd) === 0x3f && !this.#late) this.#arrived.add(`${fact.aid};${frame.tid};${flying.life}`)
    this.#check(got, flying)
    if (this.#good) this.#count(flying)
    const content = contentOf(fact)
    if (!this.#partial && !((this.#log.get(content)?.tRaw ?? 0) > fact.tRaw)) this.#log.set(content, fact)
    if (!exchange) return
    // answers are lost, duplicated and late too
    for (let copies = this.int(3); copies > 0; copies--)
      this.#answers.push({ due: this.#step + this.int((this.scenario.delay ?? 0) + 1), run, frame })
  }

  #own(bytes: Uint8Array, epoch: number | undefined): Fact | null {
    const got = this.#receiver.receive(bytes, epoch)
    this.#late = got.meta.late === true
    this.#course = digest(this.#course, Buffer.from(JSON.stringify(got.kind === 'fact' ? got.meta : got)))
    this.#partial = got.kind === 'fact' && got.needFull
    if (got.kind === 'fact') {
      if (epoch === undefined && got.reshaped) this.#shapes.push({ bytes, aid: got.fact.aid })
      return got.fact
    }
    const keyless = this.scenario.rekey && (got.code === 'BAD_KEY' || got.code === 'NO_KEY')
    if (!got.needFull && !keyless) throw new Error(`${got.code}: ${got.message}`)
    return null
  }

  #plain(bytes: Uint8Array): Fact | null {
    const got: DecodedPacket = this.#fusion!.decompress(bytes)
    if (got.error === undefined) return dictToFact(got, got.__packet_meta__.source_aid!)
    if (!/^(Template|No cached values)/.test(String(got.error))) throw new Error(String(got.error))
    return null
  }

  /**
   * Without acknowledgements a reused TID is only safe when one FULL of its first half minute arrives (decision 0016), and not as one
   * older than the same content in the run before: a link that loses every such one is assumed to lose the others too, up to
   * the next FULL.
   */
  #losesAll({ frame, fact, run, life }: Flying): boolean {
    if (this.scenario.exchange || frame.tid >= 200 || baseCommand(frame.cmd) === 0x3f) return false
    return !this.#arrived.has(`${fact.aid};${frame.tid};${life}`) && run.nextTid > 200
  }

  #life(sender: Sender, fact: Fact, { tid }: EncodedFrame): number {
    const content = `${this.#runs(sender.encoder)};${contentOf(fact)}`
    const use = sender.uses.get(tid)
    if (use?.content === content) return use.life
    const life = (use?.life ?? 0) + 1
    sender.uses.set(tid, { content, life })
    return life
  }

  readonly #runNumbers = new WeakMap<UplinkEncoder, number>()
  #runCount = 0
  #runs(run: UplinkEncoder): number {
    let n = this.#runNumbers.get(run)
    if (n === undefined) this.#runNumbers.set(run, (n = ++this.#runCount))
    return n
  }

  /** The outcome of this world: counts, the receiver's own counters, and the digest. */
  get course(): unknown[] {
    const own = [this.sent, this.decoded, this.refused, this.#course]
    if (this.#fusion) return [...own, this.#fusion.weight]
    const { weight, sources, counters, spill } = this.#receiver
    return [...own, weight, sources, counters, spill?.counters]
  }

  // ---- what must be true

  #check(got: Fact, { fact }: Flying): void {
    const wrong = this.#partial ? partialDifference(got, fact) : difference(got, fact)
    if (wrong) throw new Error(`${wrong}\n got ${JSON.stringify(got)}\nsent ${JSON.stringify(fact)}`)
  }

  #template({ frame, run }: Flying): string {
    return `${this.#runs(run)};${frame.tid}`
  }

  #count(flying: Flying): void {
    const key = this.#template(flying)
    this.#sinceGood.set(key, (this.#sinceGood.get(key) ?? 0) + 1)
  }

  /** On a good link a packet may be refused only until its template had a key frame. */
  #mustBeNew(flying: Flying): void {
    this.#count(flying)
    const n = this.#sinceGood.get(this.#template(flying))!
    if (n > FULL_EVERY) throw new Error(`still refused after ${n} packets of ${this.#template(flying)}`)
  }
}
