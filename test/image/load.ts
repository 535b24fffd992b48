// The load of a board until its power is cut, and its promises by then: packets that its receiver acknowledged, records reported as
// committed, and numbers that two programs in it wrote. One of them syncs each number before it reports it; the other never syncs: a rig
// that does not catch it could not catch the gateway either.
import { createSocket } from 'node:dgram'
import { UplinkEncoder } from '../../src/pipeline/sender'
import { SequenceCounter } from '../../src/protocol/control'
import { DeliverySender } from '../../src/protocol/delivery'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { sleep } from '../lib/gateway'
import type { Board } from './board'

export const DEVICE = 'field'
const T0 = 1_710_000_000_000
/** between an answer and the next question: each is a TLS handshake, which takes the emulated board a second */
const QUERY_MS = 1000
const units = { ...wireUnits(), resolve }

/** A line that was being written may be zeros behind the others: the length of a file may be on the card before what it has there. */
const SAVED = `cd /data; for name in synced unsynced; do echo had $name $(tr -d '\\0' <$name | tail -n 1); done`
/** Numbers continue where the files of the boot before left off. A loop that does not wait takes the board's only processor from the gateway. */
const WRITERS = `${SAVED}
n=FROM
while sleep 0.1; do
  n=$((n+1)); echo $n >>synced; sync synced; echo synced $n
  echo $n >>unsynced; echo unsynced $n
done`

export type Writer = 'synced' | 'unsynced'

export class Load {
  readonly acknowledged = new Set<number>()
  /** the newest number that each program reported as written */
  readonly said: Record<Writer, number> = { synced: 0, unsynced: 0 }
  /** how often the file of each program ended before that number after a start */
  readonly caught: Record<Writer, number> = { synced: 0, unsynced: 0 }
  /** the newest record of the log that was reported as committed */
  committed = 0
  /** losses by /metrics, and packets received since the start */
  lost = 0
  received = 0
  queries = 0
  sent = 0
  readonly #board: Board
  readonly #token: string
  readonly #encoder = new UplinkEncoder({ aid: 7, units, acknowledged: true })
  readonly #seqs = new SequenceCounter()
  #epoch = 1000
  #paused = false
  #stops: (() => void)[] = []

  constructor(board: Board, token: string) {
    this.#board = board
    this.#token = token
  }

  start(): void {
    this.send(5)
    void this.#query(() => this.#board.ask('/api/data/packets?limit=50', { token: this.#token }))
    void this.#query(() => this.readMetrics())
    const from = Math.max(...Object.values(this.said)) + 1
    const shell = this.#board.follow(WRITERS.replace('FROM', String(from)), line => {
      const [name, number] = line.split(' ')
      if (name === 'had') this.#had(line)
      else if (name! in this.said) this.said[name as Writer] = Number(number)
    })
    this.#stops.push(() => shell.kill('SIGKILL'))
  }

  /** Compares the files of the programs with what they said. False if the board does not answer. */
  async readFiles(): Promise<boolean> {
    const { code, text } = await this.#board.shell(SAVED)
    if (code === 0) for (const line of text.trim().split('\n')) this.#had(line)
    return code === 0
  }

  #had(line: string): void {
    const [, name, number = '0'] = line.split(' ')
    if (Number(number) < this.said[name as Writer]) this.caught[name as Writer]++
  }

  /** No new packet is sent; earlier ones are resent until they are acknowledged. */
  pause(): void {
    this.#paused = true
  }

  /** Later reports do not count: call it before the power is cut. */
  stop(): void {
    for (const stop of this.#stops.splice(0)) stop()
  }

  async readMetrics(): Promise<void> {
    const { status, text } = await this.#board.ask('/metrics', { token: this.#token })
    const number = (name: string): number => Number(new RegExp(`^os_node_${name} (\\d+)$`, 'm').exec(text)?.[1])
    if (status !== 200) throw new Error(`/metrics: ${status}`)
    this.committed = number('log_committed_seq')
    this.lost = number('log_lost_records_total')
    this.received = number('received_total{what="facts"}')
  }

  /** The acknowledged items that the board no longer has. */
  async missing(from: number): Promise<number[]> {
    const has = new Set<number>()
    const since = (T0 + from * 1000) / 1000
    for (let offset = 0; ; offset += 500) {
      const query = `device_id=${DEVICE}&since=${since}&limit=500&offset=${offset}`
      const { status, text } = await this.#board.ask(`/api/data/packets?${query}`, { token: this.#token })
      if (status !== 200) throw new Error(text)
      const { packets } = JSON.parse(text) as { packets: { payload_json: { t_raw: number } }[] }
      for (const { payload_json: fact } of packets) has.add((fact.t_raw - T0) / 1000)
      if (packets.length === 0) return [...this.acknowledged].filter(number => number >= from && !has.has(number))
    }
  }

  /** Sends this many packets ten times in a second, and resends each until it is acknowledged. */
  send(packets: number): void {
    const fact = (number: number) => ({
      id: DEVICE,
      state: 'ONLINE',
      tRaw: T0 + number * 1000,
      aid: 7,
      sensors: [{ id: 's', status: 'OK', unit: 'K', value: number }],
    })
    const epoch = this.#epoch++
    const socket = createSocket('udp4')
    const sender = new DeliverySender<number>({
      maxPacket: 400,
      nextSeq: () => this.#seqs.next(),
      randomEpoch: () => epoch,
      onAcked: number => this.acknowledged.add(number),
      onResend: number => this.#encoder.encodeFull(fact(number)).bytes,
    })
    this.#encoder.opened(true)
    const again: number[] = []
    const timer = setInterval(() => {
      // a board too busy to answer for a while: the link is reopened, as by a gateway
      if (sender.mode === 'silent') {
        again.push(...sender.reset())
        this.#encoder.opened(true)
      }
      for (; again.length > 0 && sender.canSubmit(400); again.shift())
        sender.submit(this.#encoder.encodeFull(fact(again[0]!)).bytes, again[0]!)
      for (let k = 0; k < packets && !this.#paused && sender.canSubmit(400); k++)
        sender.submit(this.#encoder.encode(fact(++this.sent)).bytes, this.sent)
      for (let frame = sender.poll(Date.now()); frame; frame = sender.poll(Date.now()))
        socket.send(frame.slice(), this.#board.packets, '127.0.0.1')
    }, 100)
    socket.on('message', message => sender.onAnswer(message, Date.now()))
    this.#stops.push(() => {
      clearInterval(timer)
      socket.close()
    })
  }

  async #query(ask: () => Promise<unknown>): Promise<void> {
    let going = true
    this.#stops.push(() => {
      going = false
    })
    while (going) {
      await ask().then(
        () => this.queries++,
        () => {},
      )
      await sleep(QUERY_MS)
    }
  }
}
