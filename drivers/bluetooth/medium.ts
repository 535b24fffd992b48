// Packets over the Nordic UART service in the framing of serial lines (decision 0029). A sending medium has one peer and is down without it. A listening
// medium has any number of peers: it is up when the adapter is up, each peer connects and reconnects independently, and
// missing peers are reported (degraded). Media that name the same peer share one connection.
import type { Clock } from '../../src/lib/clock'
import { counted } from '../../src/lib/counted'
import type { Logger } from '../../src/lib/logger'
import type { Timers } from '../../src/lib/timers'
import type { LinkCounters, Medium, OpenableEvents, PacketHandler, PacketOrigin } from '../../src/links/contracts'
import { LineMedium } from '../../src/links/line/medium'
import { Link } from '../../src/links/link'
import { sharedMedium } from '../kit/shared'
import { bleAddress } from './ad'
import type { Adapter, AdapterUser } from './adapter'
import { NusLine } from './nus-line'

/** Notifications of one packet arrive one connection interval apart, and one of them may be retransmitted. */
const GAP_MS = 500

export interface NusOptions {
  adapter: Adapter
  framing: 'uart' | 'cobs'
  maxPacket: number
  findMs: number
  connectMs: number
  silenceMs: number
  clock: Clock
  timers: Timers
  logger: Logger
}

/** One connection: a line medium that also reports the peer, the signal strength and the adapter's counters. */
class NusMedium extends LineMedium {
  readonly #line: NusLine

  constructor(peer: string, options: NusOptions) {
    const { adapter, framing, maxPacket, findMs, connectMs, silenceMs, clock, timers, logger } = options
    const line = new NusLine({ name: peer, peer, adapter, timers, findMs, connectMs, silenceMs })
    super(line, { medium: 'Bluetooth', framing, maxPacket, clock, timers, logger, gapMs: GAP_MS })
    this.#line = line
  }

  override get counters(): LinkCounters {
    return { ...super.counters, detail: this.#line.counters.detail }
  }

  override onPacket(handler: PacketHandler): void {
    const line = this.#line
    const known: PacketOrigin = {
      medium: this.medium,
      get address() {
        return line.peer
      },
      get rssi() {
        return line.rssi ?? undefined
      },
      reply: packet => this.send(packet),
    }
    super.onPacket(packet => handler(packet, known))
  }
}

/** The connection to a peer, shared by all media that name it. */
export function peerMedium(name: string, mode: 'send' | 'listen', peer: string, options: NusOptions): Medium {
  const { adapter, framing, maxPacket, findMs, connectMs, silenceMs, logger } = options
  return sharedMedium('Bluetooth', {
    name,
    mode,
    key: `${adapter.name} ${bleAddress(peer) ?? peer}`,
    settings: { framing, maxPacket, findMs, connectMs, silenceMs },
    make: () => new NusMedium(peer, options),
    logger,
  })
}

/** only for a peer in range that does not connect: a peer that appears is connected to immediately */
const RETRY = { minMs: 1000, maxMs: 10_000 }

export class PeersMedium implements Medium {
  readonly medium = 'Bluetooth'
  readonly maxPacket: number
  readonly #options: NusOptions
  readonly #peers: readonly { peer: string; medium: Medium; link: Link }[]
  #events: OpenableEvents | undefined
  #user: AdapterUser | undefined
  #silent = ''

  constructor(
    readonly name: string,
    peers: readonly string[],
    options: NusOptions,
  ) {
    this.#options = options
    this.maxPacket = options.maxPacket
    const { clock, timers, logger } = options
    this.#peers = peers.map(peer => {
      const medium = peerMedium(name, 'listen', peer, options)
      const link = new Link(medium, {
        clock,
        timers,
        logger: logger.child(peer),
        backoff: RETRY,
        openTimeoutMs: options.findMs + options.connectMs + 5000,
        onState: () => this.#report(),
      })
      return { peer, medium, link }
    })
  }

  get counters(): LinkCounters {
    const sum = { rx: 0, tx: 0, errors: 0 }
    for (const { medium } of this.#peers) {
      const { rx, tx, errors } = medium.counters
      sum.rx += rx
      sum.tx += tx
      sum.errors += errors
    }
    return {
      ...sum,
      detail: { ...this.#options.adapter.detail, peers: this.#peers.length, connected: this.#connected() },
    }
  }

  onPacket(handler: PacketHandler): void {
    for (const { medium } of this.#peers) medium.onPacket(handler)
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    const { adapter, silenceMs } = this.#options
    const user: AdapterUser = {
      lost: reason => events.lost(reason),
      degraded: reason => {
        this.#silent = reason
        this.#report()
      },
    }
    this.#user = user
    this.#events = events
    await adapter.join(user, { silenceMs })
    if (this.#user !== user) return adapter.leave(user)
    for (const { link } of this.#peers) link.enable()
    this.#report()
  }

  async close(): Promise<void> {
    const user = this.#user
    this.#user = undefined
    this.#events = undefined
    this.#silent = ''
    await Promise.all(this.#peers.map(({ link }) => link.disable()))
    if (user) await this.#options.adapter.leave(user)
  }

  onReturn(back: () => void): () => void {
    return this.#options.adapter.onReturn(back)
  }

  /** There is no default peer to send to: answers go to the origin of a packet. */
  send(): Promise<boolean> {
    return Promise.resolve(false)
  }

  #connected(): number {
    return this.#peers.filter(({ link }) => link.usable).length
  }

  #report(): void {
    const missing = this.#peers.filter(({ link }) => !link.usable)
    if (missing.length === 0) {
      this.#events?.degraded('')
      return
    }
    const reasons = missing.map(({ peer, link: { state } }) =>
      'reason' in state ? state.reason : `looking for ${peer}`,
    )
    const connected = `${this.#peers.length - missing.length} of ${counted(this.#peers.length, 'peer')} connected`
    this.#events?.degraded([connected, ...reasons.slice(0, 3), this.#silent].filter(text => text !== '').join('; '))
  }
}
