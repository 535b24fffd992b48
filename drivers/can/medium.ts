// The CAN medium (decision 0032): packets to and from peers over the kernel's ISO-TP; each peer has its own pair of CAN ids. It
// sends to one peer and listens to all listed peers. Opening needs the interface and every peer's socket; a lost
// interface loses all of them. A faulty bus, or a peer that does not accept packets, is `degraded`.
import { asOsError, OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, LinkCounters, Medium, OpenableEvents, PacketHandler } from '../../src/links/contracts'
import { CAN_EFF } from '../../src/native/can'
import { sharedMedium } from '../kit/shared'
import { type BusEdges, CanBus, kernelEdges, lossOf } from './bus'
import { type CanOptions, idOf, MAX_STANDARD, type PeerOptions, STANDARD_PACKET } from './can-options'
import { CanPeer, type PeerParts, type PeerSettings } from './peer'

interface CanParts extends DriverContext {
  readonly timers?: Timers
  /** the kernel; tests pass their own */
  readonly edges?: BusEdges
  readonly openSocket?: PeerParts['openSocket']
  /** the kernel's largest packet, if it reports it */
  readonly kernelMax?: () => number
}

export class CanMedium implements Medium {
  readonly medium = 'CAN'
  readonly maxPacket: number
  readonly #options: CanOptions
  readonly #kernelMax: () => number
  readonly #bus: CanBus
  readonly #peers: readonly Medium[]
  readonly #fd: boolean
  readonly #target: Medium | undefined
  #reasons = new Map<string, string>()

  /** Throws CONFIG_INVALID when there is no peer to send to, or several and none is named. */
  constructor(
    readonly name: string,
    options: CanOptions,
    parts: CanParts,
  ) {
    const { clock, logger, timers = systemTimers, edges = kernelEdges, openSocket } = parts
    const used = usedPeers(name, options)
    this.#options = options
    this.#fd = used.some(peer => peer.fd)
    this.maxPacket = options.max_packet
    this.#kernelMax = parts.kernelMax ?? (() => STANDARD_PACKET)
    this.#bus = new CanBus(options.interface, timers, edges)
    const loss = (result: number): string | undefined => lossOf(options.interface, result, edges)
    this.#peers = used.map(peer => {
      const settings = settingsOf(peer, options)
      const part = `${name}-${idText(peer.rx_id)}`
      const { txId, rxId } = settings.isotp
      // an uplink, a receiver and dispatch may use the same peer, and only one socket may answer it
      return sharedMedium('CAN', {
        name: part,
        mode: options.mode,
        key: `${options.interface} ${idText(txId)} ${idText(rxId)}`,
        settings,
        make: () => new CanPeer(part, settings, { clock, timers, logger, loss, ...(openSocket && { openSocket }) }),
        logger,
      })
    })
    this.#target = options.mode === 'send' ? this.#peers[0] : undefined
  }

  /** `detail`: the counters of controller and kernel (CanBus.detail) and the sums of the peers' counters */
  get counters(): LinkCounters {
    const sum = { rx: 0, tx: 0, errors: 0 }
    let dropped = 0
    const detail: Record<string, number> = { ...this.#bus.detail }
    for (const { counters } of this.#peers) {
      for (const key of ['rx', 'tx', 'errors'] as const) sum[key] += counters[key]
      dropped += counters.dropped ?? 0
      for (const [key, count] of Object.entries(counters.detail ?? {})) detail[key] = (detail[key] ?? 0) + count
    }
    return { ...sum, ...(dropped > 0 && { dropped }), detail }
  }

  /** Sets the only handler; a second call replaces it. */
  onPacket(handler: PacketHandler): void {
    for (const peer of this.#peers) peer.onPacket(handler)
  }

  async open(events: OpenableEvents): Promise<void> {
    const { interface: name } = this.#options
    if (this.maxPacket > STANDARD_PACKET && this.maxPacket > this.#kernelMax())
      throw new OsError(
        'LINK_DOWN',
        `max_packet ${this.maxPacket} is more than this kernel's ISO-TP carries (${this.#kernelMax()}): ` +
          'set can_isotp.max_pdu_size, or max_packet to 4095',
      )
    this.#reasons = new Map()
    const part = (key: string): OpenableEvents => ({
      lost: reason => {
        this.#bus.missed()
        events.lost(reason)
      },
      degraded: reason => {
        // no peer answers on a bus that is off; and one silent peer of many is no fault of a listener
        const excused = key !== name && (this.#options.mode === 'listen' || this.#reasons.get(name))
        if (reason === (this.#reasons.get(key) ?? '') || (reason && excused)) return
        this.#reasons.set(key, reason)
        events.degraded([...this.#reasons.values()].filter(Boolean).join('; '))
      },
    })
    try {
      this.#bus.open(part(name), this.#fd)
      for (const peer of this.#peers) await peer.open(part(peer.name))
    } catch (error) {
      await this.close()
      throw asOsError(error, 'LINK_DOWN')
    }
  }

  async close(): Promise<void> {
    this.#bus.close()
    await Promise.all(this.#peers.map(peer => peer.close()))
  }

  onReturn(back: () => void): () => void {
    return this.#bus.onReturn(back)
  }

  /** To the only peer of a sending medium; a listening medium returns false. */
  send(packet: Uint8Array): Promise<boolean> {
    return this.#target?.send(packet) ?? Promise.resolve(false)
  }
}

/** The peers that a medium uses: all, or the one it sends to. */
function usedPeers(name: string, { mode, peers, peer: aid }: CanOptions): readonly PeerOptions[] {
  const refuse = (text: string, key: string): never => {
    throw new OsError('CONFIG_INVALID', `options of ${name}: ${text}`, { details: { link: name, keys: [key] } })
  }
  if (peers.length === 0) return refuse('peers: at least one is needed, with its tx_id and rx_id', 'peers')
  if (mode === 'listen') return peers
  if (aid === undefined) {
    if (peers.length > 1) return refuse('peer: there are several peers; set the aid of the one to send to', 'peer')
    return peers
  }
  const found = peers.filter(peer => peer.aid === aid)
  return found.length > 0 ? found : refuse(`peer: none of the peers has the aid ${aid}`, 'peer')
}

const idText = (id: number | string): string => idOf(id).toString(16)

/** STmin of ISO 15765-2: whole milliseconds to 127, hundreds of microseconds from 0xF1 on. */
export const separation = (us: number): number => (us > 0 && us < 1000 ? 0xf0 + us / 100 : us / 1000)

export function settingsOf(peer: PeerOptions, options: CanOptions): PeerSettings {
  const [tx, rx] = [idOf(peer.tx_id), idOf(peer.rx_id)]
  const flag = (peer.ext ?? Math.max(tx, rx) > MAX_STANDARD) ? CAN_EFF : 0
  return {
    interface: options.interface,
    isotp: {
      txId: tx + flag,
      rxId: rx + flag,
      ...(peer.fd && { fd: { dataBytes: peer.frame_bytes, brs: peer.brs } }),
      ...(peer.padding !== undefined && { padding: peer.padding }),
      blockSize: peer.block_size,
      stMin: separation(peer.separation_us),
    },
    maxPacket: options.max_packet,
    sendTimeoutMs: options.send_timeout_ms,
  }
}
