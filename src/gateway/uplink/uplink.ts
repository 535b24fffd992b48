// One uplink (decision 0019): a loop over three parts. While it is active it takes the next item from the send queue that all uplinks
// share, lets the packer build a packet, passes that to the channel, and settles the item when the channel has delivered it.
// While another uplink is active its channel stays open, and as the secondary uplink it sends oversized facts. After a
// restart, a lost link or a handover the records after the cursor are sent again.
//
// Errors: a link that is down leaves the cursor unchanged. If the peer stops answering, the link goes down, and the
// supervisor opens it again. A send that never returns ends with the link. A record that waits for a session key stays in the
// queue.
import type { GatewayCores } from '../../cores'
import { systemTimers, type Timers } from '../../lib/timers'
import { nextTurn } from '../../lib/yield'
import type { LinkState } from '../../links/contracts'
import type { WireUnits } from '../../pipeline/wireunit'
import { SentFrames } from '../../protocol/handshake/refusals'
import { SecureClient } from '../../protocol/secure/client'
import type { Identity } from '../identity'
import type { UplinkReport } from '../status'
import { BURST, Channel, type ChannelParts, type ChannelSettings } from './channel'
import { Encoders, type PackSettings } from './encoders'
import type { Item } from './lane'
import { type Misfit, Packer } from './packer'
import { Pump } from './pump'
import { SendQueue, type SendQueueParts, type Want } from './send-queue'
import { SentWatchers } from './watchers'
import type { Delivery } from './window'

export type UplinkSettings = Omit<PackSettings, 'diffBase'> & ChannelSettings

export interface UplinkParts
  extends Omit<ChannelParts, 'encoders' | 'client' | 'timers' | 'now' | 'degraded'>,
    Pick<SendQueueParts, 'log' | 'holdMs'> {
  identity: Identity
  units: WireUnits
  /** packets may be sent: identity and time can be requested */
  onReady: () => void
  /** shared with the other uplinks; default: a separate queue, which makes this uplink active from the start */
  queue?: SendQueue
  watchers?: SentWatchers
  /** maximum packet size of the largest uplink of the list; default: of this one */
  largest?: () => number
  /** whether it takes facts that are too large for the active one */
  secondary?: () => boolean
  /** `usable` changed */
  onUsable?: () => void
  /** this uplink's side of its secure sessions; default: one that is not stored */
  secure?: SecureClient
  timers?: Timers
  /** default: the pure core */
  cores?: GatewayCores | undefined
  now?: ChannelParts['now']
  degraded?: ChannelParts['degraded']
}

/** how long another uplink may be active before key requests are sent over this one again */
const KEY_RETRY_MS = 120_000

export class Uplink {
  readonly name: string
  /** reports once how a record was sent */
  readonly watchers: SentWatchers
  readonly #parts: UplinkParts
  readonly #client: SecureClient
  readonly #queue: SendQueue
  readonly #want: Want
  readonly #encoders: Encoders
  readonly #packer: Packer
  readonly #channel: Channel
  readonly #pump: Pump
  #active: boolean
  /** it took oversized facts since the link was opened */
  #tookOversized = false
  #keyless = false
  #cancelKeyRetry: (() => void) | undefined
  /** everything due by then was handled, mono ms */
  #turnAt = Number.NEGATIVE_INFINITY

  constructor(settings: UplinkSettings, parts: UplinkParts) {
    this.name = settings.name
    this.#parts = parts
    const { clock, logger, identity, timers = systemTimers, secure: client = new SecureClient({ clock }) } = parts
    const { now = () => clock.wall(), largest = () => this.maxPacket } = parts
    const recent = new SentFrames()
    const degraded = (reason: string): void => {
      parts.degraded?.(reason)
      this.#setKeyless(reason !== '')
    }
    this.#client = client
    this.#queue = parts.queue ?? new SendQueue(`uplink:${settings.name}`, parts)
    this.#active = !parts.queue
    this.watchers = parts.watchers ?? new SentWatchers()
    const { diffBase = 'sticky' } = settings
    const { airtime } = parts.medium
    this.#encoders = new Encoders(
      { ...settings, diffBase },
      { ...parts, airtime, client, recent, changed: () => this.pump() },
    )
    this.#channel = new Channel(
      settings,
      { ...parts, encoders: this.#encoders, client, timers, now, degraded },
      {
        changed: () => this.pump(),
        answered: () => {
          if (this.#pump.open) this.#ready()
        },
        taken: ({ seq, packet }) => this.watchers.sent(seq, packet!.bytes, this.medium, 'exchange'),
        delivered: (item, delivery) => this.#delivered(item, delivery),
        again: item => this.#again(item),
        frameRefused: frame => this.#queue.refused(frame, recent.takeSeq(frame)),
        handedBack: () => this.#rewind(),
      },
    )
    const { session } = this.#channel
    this.#packer = new Packer({ encoders: this.#encoders, session, identity, logger, largest })
    const { mayGo, sizeOf } = this.#packer
    this.#want = { limit: 0, alarmsOnly: false, oversizedOnly: false, mayGo, sizeOf }
    this.#pump = new Pump({ timers, logger, turn: opening => this.#turn(opening), waitMs: () => this.#waitMs() })
  }

  get medium(): string {
    return this.#channel.medium
  }

  /** True while the link is open, the peer answers, and no record waits for a key that it does not give. */
  get usable(): boolean {
    return this.#pump.open && !this.#keyless
  }

  /** True while the upstream answers and does not have everything yet. */
  get draining(): boolean {
    return this.#takes && this.#pump.open && this.#waiting > 0
  }

  /** largest data packet in bytes that this uplink carries */
  get maxPacket(): number {
    return this.#channel.maxPacket
  }

  /** The key that encrypts packets of an AID; null: they are sent in plaintext. */
  key(aid: number): Uint8Array | null {
    return this.#client.outboundKey(aid)
  }

  /** Takes records from now on, as the only uplink. The first packet of every template is a key frame. */
  activate(): void {
    if (this.#active) return
    this.#active = true
    this.#encoders.keyFrames()
    if (this.#pump.open) this.#queue.begin()
    this.pump()
  }

  /** Takes no more records. Settles when nothing is in flight any more, at the latest after `limitMs`. */
  async release(limitMs: number): Promise<void> {
    if (!this.#active) return
    this.#active = false
    if (this.#pump.open) await this.#channel.drained(limitMs)
  }

  /** The supervisor's state of the medium changed. */
  link({ state }: LinkState): void {
    const usable = state === 'up' || state === 'degraded'
    if (usable === this.#pump.open) return
    this.#pump.set(usable)
    if (usable) this.#ready()
    else {
      this.#rewind()
      this.#channel.closed()
      this.#setKeyless(false)
    }
    this.#parts.onUsable?.()
  }

  /** Checks whether the peer supports the delivery exchange (X29). Throws LINK_DOWN if it does not answer. */
  probe(): Promise<void> {
    this.#rewind()
    return this.#channel.probe()
  }

  cancelProbe(): void {
    this.#channel.cancelProbe()
  }

  /** Something may have changed: a commit, an assigned id, a sync. */
  pump(): void {
    this.#pump.run()
  }

  status(): UplinkReport {
    const { cursor, backlog } = this.#queue
    const { refused, again } = this.#packer.counters
    const { acked, sent, resent, ...more } = this.#channel.report()
    return { carrying: this.#active, cursor, backlog, acked, sent, resent: resent + again, refused, ...more }
  }

  /** Stores the current cursor; called before the log is closed, or when this uplink is removed. */
  stop(): void {
    this.#pump.set(false)
    this.#cancelKeyRetry?.()
    this.#channel.stop()
    this.#encoders.keep()
    this.#channel.session.save(true)
    this.#queue.saveCursor(true)
  }

  get #takes(): boolean {
    return this.#active || (this.#parts.secondary?.() ?? false)
  }

  get #waiting(): number {
    return this.#queue.waiting(this.maxPacket, !this.#active)
  }

  /** The peer has answered, or need not: identity and time are requested, and records may be sent. */
  #ready(): void {
    this.#channel.opened()
    if (this.#active) this.#queue.begin()
    this.#parts.onReady()
    this.pump()
  }

  async #turn(opening: number): Promise<void> {
    const { clock, lost } = this.#parts
    for (let burst = 0; this.#pump.isCurrent(opening); ) {
      const now = clock.mono()
      this.#turnAt = now
      const took = this.#fill(now)
      // over budget only alarms are taken and sent
      const sent = took || this.#channel.pace.readyAt(now) <= now ? await this.#channel.send(now) : 0
      if (!this.#pump.isCurrent(opening)) return
      if (sent === 0 && !took) break
      if (++burst % BURST === 0) await nextTurn()
    }
    if (this.#channel.silent) lost('the upstream stopped acknowledging')
  }

  /** Takes items while the window has room and the budget allows it; true if it took any. */
  #fill(now: number): boolean {
    const { pace } = this.#channel
    if (!this.#takes || !pace.urgentMay) return false
    let took = false
    this.#encoders.begin(() => this.#waiting - this.#channel.inFlight)
    try {
      // a batch is packed completely before it is sent
      while (this.#channel.room) {
        const item = this.#next(pace.readyAt(now) > now || this.#batchAt(now) > now)
        if (!item) break
        took = true
        this.#channel.take(item.packet!, item)
        this.#tookOversized ||= !this.#active
      }
    } finally {
      this.#channel.finish()
    }
    if (took) pace.batchDone()
    return took
  }

  /** The next item to send, packed; items that cannot be packed are settled. */
  #next(alarmsOnly: boolean): Item | null {
    const want = this.#want
    want.limit = this.maxPacket
    want.alarmsOnly = alarmsOnly
    want.oversizedOnly = !this.#active
    for (let item = this.#queue.next(want); item; item = this.#queue.next(want)) {
      const packet = this.#packer.pack(item, want.limit)
      if (typeof packet !== 'string') return item
      this.#misfit(item, packet)
    }
    return null
  }

  /** The packet to retransmit for an item that timed out; null: no retransmit is needed or possible. */
  #again(item: Item): Uint8Array | null {
    if (!this.#queue.wants(item)) return null
    if (!this.#packer.unanswered(item)) {
      // it must not be sent in plaintext: reopen the link and start at the cursor, after the exchange has returned from this
      // call
      setImmediate(() => this.#parts.lost('packets in flight must wait for a session key'))
      return null
    }
    const packet = this.#packer.packAgain(item, this.maxPacket)
    if (typeof packet !== 'string') return packet.bytes
    this.#misfit(item, packet)
    return null
  }

  #misfit(item: Item, misfit: Misfit): void {
    this.#queue.settle(item, misfit === 'oversized' ? this.maxPacket : undefined)
  }

  #delivered(item: Item, delivery: Delivery): void {
    if (item.done) return
    if (delivery === 'exchange') {
      this.#packer.acked(item)
      this.watchers.acknowledged(item.seq)
    }
    // confirmed by a broker, or never confirmed: neither proves anything about the upstream's templates and keys
    else this.watchers.sent(item.seq, item.packet!.bytes, this.medium, delivery)
    this.#queue.settle(item)
    this.#pump.again()
    if (delivery === 'medium') this.pump()
  }

  #rewind(): void {
    if (this.#active) this.#queue.rewind()
    else if (this.#tookOversized) this.#queue.rewindOversized()
    this.#tookOversized = false
    this.#encoders.keyFrames()
  }

  #setKeyless(keyless: boolean): void {
    this.#cancelKeyRetry?.()
    const { timers = systemTimers, onUsable } = this.#parts
    if (keyless) this.#cancelKeyRetry = timers.after(KEY_RETRY_MS, () => this.#setKeyless(false))
    if (keyless === this.#keyless) return
    this.#keyless = keyless
    onUsable?.()
  }

  /** ms until the next turn if nothing changes before. */
  #waitMs(): number {
    const { clock, log } = this.#parts
    const { pace, session } = this.#channel
    const now = clock.mono()
    const paced = pace.readyAt(now)
    const dues = [Math.max(paced, this.#channel.due(now))]
    if (this.#takes) {
      dues.push(this.#queue.heldUntil, session.wakeAt, this.#batchAt(now))
      if (paced > now && this.#waiting > 0) dues.push(paced)
    }
    let next = now + (log.degraded ? 1000 : 5000)
    for (const due of dues) if (due > this.#turnAt && due < next) next = due
    // saved here and not by a timer: while there is something to send, the timer is postponed again and again
    this.#queue.saveCursor(false)
    session.save(false)
    return next - now
  }

  #batchAt(now: number): number {
    return this.#channel.pace.batchAt(now, () => this.#waiting)
  }
}
