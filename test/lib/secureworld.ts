// A gateway's uplink and receiver at the two ends of a line in memory, with a manual clock and without processes. Every
// packet on the line is recorded; each may be lost. Either end can be killed or stopped and restarted, with or without its
// session file, or be replaced by another peer.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Receive } from '../../src/gateway/receive/receive'
import { ReceiveSession } from '../../src/gateway/receive/receiver-session'
import { probedMedium } from '../../src/gateway/uplink/probed-medium'
import { Uplink } from '../../src/gateway/uplink/uplink'
import { realFiles } from '../../src/lib/files'
import { silentLogger } from '../../src/lib/logger'
import type { PacketHandler } from '../../src/links/contracts'
import { type LineFraming, LineMedium } from '../../src/links/line/medium'
import { Link } from '../../src/links/link'
import type { Fact } from '../../src/pipeline/fact'
import { Receiver } from '../../src/pipeline/receiver'
import { WirePickers } from '../../src/pipeline/wireunit'
import { SequenceCounter } from '../../src/protocol/control'
import { DuplicateFilter } from '../../src/protocol/duplicates'
import { HandshakeManager } from '../../src/protocol/handshake/manager'
import { SecureClient } from '../../src/protocol/secure/client'
import { SecureServer } from '../../src/protocol/secure/server'
import { SecureSessions } from '../../src/protocol/secure/sessions'
import { NodeClock } from '../../src/protocol/time'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { isData } from '../../src/wire/commands'
import { LinePair } from './linepair'
import { ManualClock, ManualTimers } from './manual'
import { MemLog } from './memlog'
import { packetsIn } from './packets'

export const units = { ...wireUnits(), resolve }

export interface WorldOptions {
  delivery?: 'auto' | 'best_effort'
  framing?: LineFraming
  requireSecure?: { client?: boolean; server?: boolean }
  /** true: the packet is lost */
  lose?: (packet: Uint8Array, from: 'a' | 'b', world: World) => boolean
  /** replaces our receiver; answers with this function */
  peer?: (packet: Uint8Array, reply: (packet: Uint8Array) => void) => void
}

export interface Carried {
  readonly from: 'a' | 'b'
  readonly bytes: Uint8Array
  readonly lost: boolean
}

export class World {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly dir = mkdtempSync(join(tmpdir(), 'os-node-secure-'))
  readonly pair: LinePair
  readonly sent = new MemLog()
  readonly got = new MemLog()
  readonly carried: Carried[] = []
  readonly clientStore = join(this.dir, 'client.json')
  readonly serverStore = join(this.dir, 'server.json')
  readonly options: Required<Omit<WorldOptions, 'peer'>> & Pick<WorldOptions, 'peer'>
  client!: SecureClient
  server!: SecureServer
  uplink!: Uplink
  receive!: Receive
  link!: Link
  #epoch = 7
  #fact = 0
  #serving: LineMedium | undefined

  constructor(options: WorldOptions = {}) {
    this.options = { delivery: 'auto', framing: 'uart', requireSecure: {}, lose: () => false, ...options }
    const { framing } = this.options
    this.pair = new LinePair({
      timers: this.timers,
      delayMs: 5,
      carry: (frame, from) => {
        const bytes = frame.slice(1, framing === 'rs485' ? -2 : -1)
        const lost = this.options.lose(bytes, from, this)
        this.carried.push({ from, bytes, lost })
        return lost ? null : frame
      },
    })
  }

  /** Starts both ends, and waits for the first packets. */
  async start(): Promise<this> {
    await this.startServer()
    await this.startClient()
    return this
  }

  async startClient(): Promise<void> {
    const { clock, timers } = this
    const { delivery, requireSecure } = this.options
    this.client = new SecureClient({
      sessions: this.#sessions(this.clientStore),
      clock,
      requireSecure: requireSecure.client ?? false,
    })
    const medium = this.medium(this.pair.a)
    const sequence = new SequenceCounter()
    this.uplink = new Uplink(
      {
        name: 'up',
        diffBase: 'sticky',
        frames: 'auto',
        fullEvery: 100,
        fullIntervalS: 60,
        precision: 4,
        delivery,
      },
      {
        log: this.sent.asLog,
        medium,
        clock,
        timers,
        logger: silentLogger,
        identity: { assigned: true, assignedId: 5 } as never,
        units,
        nextSeq: () => sequence.next(),
        randomEpoch: () => this.#epoch++,
        lost: reason => this.link.lost(reason),
        degraded: reason => this.link.complain('session', reason),
        onControl: () => false,
        onReady: () => undefined,
        holdMs: () => 0,
        secure: this.client,
      },
    )
    const thing =
      delivery === 'auto'
        ? probedMedium(
            medium,
            () => this.uplink.probe(),
            () => this.uplink.cancelProbe(),
          )
        : medium
    const uplink = this.uplink
    this.link = new Link(thing, {
      clock,
      timers,
      logger: silentLogger,
      backoff: { minMs: 1000, maxMs: 2000, random: () => 0.5 },
      onState: state => uplink.link(state),
    })
    this.link.enable()
    await this.run(50)
  }

  async startServer(): Promise<void> {
    const { clock } = this
    const medium = this.medium(this.pair.b)
    const { peer, requireSecure } = this.options
    this.#serving = medium
    const serve = (handler: PacketHandler): Promise<void> => {
      medium.onPacket(handler)
      return medium.open({ lost: () => undefined, degraded: () => undefined })
    }
    if (peer) return serve((packet, origin) => peer(packet.slice(), reply => void origin.reply(reply)))
    this.server = new SecureServer({
      sessions: this.#sessions(this.serverStore),
      clock,
      serverTime: () => clock.wall() / 1000,
      requireSecure: requireSecure.server ?? false,
    })
    this.receive = new Receive({
      log: this.got.asLog,
      receiver: new Receiver({ units, clock, inboundKey: aid => this.server.keys(aid) }),
      duplicates: new DuplicateFilter(),
      pickers: new WirePickers(units, 4),
      protocol: new HandshakeManager({}, { clock, strict: {} }),
      time: new NodeClock(clock),
      logger: silentLogger,
      ackCommitMs: 100,
      session: new ReceiveSession(this.server),
      onFact: () => undefined,
    })
    await serve((packet, origin) => this.receive.packet(packet, origin))
  }

  /** `kill`: without a stop and without saving unwritten state. `forget`: its session file is removed too. */
  async restartClient({ kill = false, forget = false } = {}): Promise<void> {
    if (kill) this.uplink.link({ state: 'disabled' })
    else this.uplink.stop()
    await this.link.disable()
    await this.run(50)
    if (forget) rmSync(this.clientStore, { force: true })
    await this.startClient()
  }

  async restartServer({ kill = false, forget = false } = {}): Promise<void> {
    if (!kill) this.server.sessions.save(true)
    await this.#serving?.close()
    if (forget) rmSync(this.serverStore, { force: true })
    await this.startServer()
  }

  /** Sends packets of the log and handles answers, for that time. */
  async run(ms: number): Promise<void> {
    for (let t = 0; t < ms; t += 10) await this.timers.advance(10)
  }

  /** Adds a fact to the sender's log; of another device with `aid`. */
  fact(aid?: number): Fact {
    this.#fact++
    const fact: Fact = {
      id: aid === undefined ? 'GW' : `NODE${aid}`,
      state: 'ONLINE',
      tRaw: this.clock.wall(),
      aid: aid ?? 0,
      sensors: [{ id: 'T1', status: 'OK', unit: 'K', value: 280 + this.#fact / 4 }],
    }
    this.sent.appendFact(fact, { medium: aid === undefined ? 'local' : 'UDP' })
    this.uplink.pump()
    return fact
  }

  /** `count` facts, one every `ms`. */
  async facts(count: number, ms = 100): Promise<void> {
    for (let k = 0; k < count; k++) {
      this.fact()
      await this.run(ms)
    }
  }

  /** The command bytes on the line: `a:3F` for data of the sender, `b:0D` for answers; without probes and delivery answers. */
  get commands(): string[] {
    return this.carried.flatMap(({ from, bytes }) =>
      packetsIn(bytes)
        .filter(packet => !isQuiet(packet))
        .map(packet => `${from}:${packet[0]!.toString(16).toUpperCase().padStart(2, '0')}`),
    )
  }

  /** Data of the sender as sent: command bytes only. */
  get data(): string[] {
    return this.commands.filter(command => command.startsWith('a:')).map(command => command.slice(2))
  }

  end(): void {
    this.uplink?.stop()
    rmSync(this.dir, { recursive: true, force: true })
  }

  get hasServerStore(): boolean {
    return existsSync(this.serverStore)
  }

  #sessions(storePath: string): SecureSessions {
    const { clock } = this
    return new SecureSessions({
      storePath,
      files: realFiles,
      now: () => Math.floor(clock.wall() / 1000),
      mono: () => clock.mono(),
    })
  }

  /** A medium at one end of the line. */
  medium(end: LinePair['a']): LineMedium {
    const { clock, timers } = this
    const { framing } = this.options
    return new LineMedium(end, { medium: 'UART', framing, maxPacket: 512, clock, timers, logger: silentLogger })
  }
}

const isQuiet = (packet: Uint8Array): boolean => !isData(packet[0]!) && [0x05, 0x09, 0x0a, 0x10].includes(packet[0]!)
