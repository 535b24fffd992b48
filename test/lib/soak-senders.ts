// Eight gateways with eight devices each, as a receiver sees them: the encoder and the delivery exchange of an uplink,
// without a log. Unacknowledged packets are sent again after a link was cut. Packets are created at a fixed rate, however
// long the links are cut.
import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import type { Fact } from '../../src/pipeline/fact'
import { type EncodedFrame, UplinkEncoder } from '../../src/pipeline/sender'
import { SequenceCounter } from '../../src/protocol/control'
import { DeliverySender } from '../../src/protocol/delivery'
import { wireUnits } from '../../src/units/wire'
import { sleep, until } from './gateway'

const PEERS = 8
const DEVICES = 64
const FIRST_AID = 0x0003_0000
const TICK_MS = 10
const UNITS = ['K', 'Pa', 'A', '%']

interface OnItsWay {
  readonly fact: Fact
  readonly packet: EncodedFrame
}

export class SoakSenders {
  /** nothing passes in either direction */
  cut = false
  made = 0
  acked = 0
  readonly #rate: number
  readonly #sockets: Socket[] = []
  readonly #exchanges: DeliverySender<OnItsWay>[] = []
  readonly #waiting: Fact[][] = Array.from({ length: PEERS }, () => [])
  readonly #encoders: UplinkEncoder[]
  #began = 0
  #firstMs = 0
  #timer: NodeJS.Timeout | undefined
  #ending = false

  private constructor(rate: number) {
    this.#rate = rate
    const units = wireUnits()
    this.#encoders = Array.from(
      { length: DEVICES },
      (_, k) => new UplinkEncoder({ aid: FIRST_AID + k, units, acknowledged: true }),
    )
  }

  /** Connects to that port of this machine; `rate` packets a second after begin(). */
  static async open(port: number, rate: number): Promise<SoakSenders> {
    const senders = new SoakSenders(rate)
    for (let peer = 0; peer < PEERS; peer++) await senders.#peer(port)
    await until('every exchange is open', () => {
      senders.#turn()
      return senders.#exchanges.every(({ mode }) => mode === 'acked')
    })
    return senders
  }

  get resent(): number {
    return this.#exchanges.reduce((sum, { counters }) => sum + counters.resent, 0)
  }

  begin(): void {
    this.#began = performance.now()
    this.#firstMs = Date.now()
    this.#timer = setInterval(() => this.#turn(), TICK_MS)
  }

  /** Creates no more packets, and waits until all are acknowledged. */
  async finish(): Promise<void> {
    this.#ending = true
    await until('every packet is acknowledged', () => this.acked === this.made)
    clearInterval(this.#timer)
    await sleep(0)
  }

  close(): void {
    clearInterval(this.#timer)
    for (const socket of this.#sockets) socket.close()
  }

  /**
   * Asserts that the newest times of that device are in a log, each once, and none of the newer half is missing. Packets of
   * the older half may have been sent again and be in the log earlier.
   */
  assertNewest(id: string, times: readonly number[]): void {
    const device = Number(id.slice('soak-'.length))
    const count = Math.ceil((this.made - device) / DEVICES)
    const sorted = [...new Set(times)].sort((a, b) => a - b)
    assert.equal(sorted.length, times.length, `${id}: a fact is there twice`)
    const newest = sorted.slice(sorted.length >> 1)
    assert.ok(newest.length > 0, id)
    const sent = newest.map((_, k) => this.#timeOf(device + DEVICES * (count - newest.length + k)))
    assert.deepEqual(newest, sent, id)
  }

  #timeOf(n: number): number {
    return this.#firstMs + Math.floor((n * 1000) / this.#rate)
  }

  async #peer(port: number): Promise<void> {
    const seq = SequenceCounter.anywhere()
    const exchange = new DeliverySender<OnItsWay>({
      maxPacket: 1400,
      nextSeq: () => seq.next(),
      randomEpoch: () => Math.floor(Math.random() * 2 ** 32),
      silentAfter: 1000,
      onAcked: ({ fact, packet }) => {
        this.acked++
        this.#encoderOf(fact).acknowledged(packet.tid, packet.ordinal)
      },
      onResend: ({ fact, packet }) => {
        const encoder = this.#encoderOf(fact)
        if (packet.ordinal > 0) encoder.keyFrameNext(packet.tid)
        return encoder.encodeFull(fact).bytes
      },
    })
    const socket = createSocket('udp4')
    socket.on('message', bytes => {
      if (!this.cut) exchange.onAnswer(bytes, performance.now())
    })
    await new Promise<void>(resolve => socket.connect(port, '127.0.0.1', resolve))
    this.#exchanges.push(exchange)
    this.#sockets.push(socket)
  }

  #encoderOf({ aid }: Fact): UplinkEncoder {
    return this.#encoders[aid - FIRST_AID]!
  }

  #turn(): void {
    const now = performance.now()
    const due = this.#began === 0 || this.#ending ? this.made : Math.floor(((now - this.#began) / 1000) * this.#rate)
    for (; this.made < due; this.made++) this.#waiting[this.made % PEERS]!.push(this.#factOf(this.made))
    for (const [peer, exchange] of this.#exchanges.entries())
      this.#send(exchange, this.#waiting[peer]!, this.#sockets[peer]!, now)
  }

  #send(exchange: DeliverySender<OnItsWay>, waiting: Fact[], socket: Socket, now: number): void {
    let taken = 0
    while (taken < waiting.length && exchange.canSubmit(400)) {
      const fact = waiting[taken++]!
      const packet = this.#encoderOf(fact).encode(fact)
      assert.ok(exchange.submit(packet.bytes, { fact, packet }, packet.maxSize))
    }
    waiting.splice(0, taken)
    for (let frame = exchange.poll(now); frame; frame = exchange.poll(now))
      if (!this.cut) socket.send(Buffer.from(frame))
  }

  #factOf(n: number): Fact {
    const device = n % DEVICES
    const sensors = UNITS.map((unit, k) => ({
      id: `s${k}`,
      status: 'OK',
      unit,
      value: 280 + ((n * 7919 + k * 104_729) % 1000) / 10,
    }))
    return { id: `soak-${device}`, state: 'ONLINE', tRaw: this.#timeOf(n), aid: FIRST_AID + device, sensors }
  }
}
