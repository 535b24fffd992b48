// All uplinks together (decision 0019): an ordered list with one shared send queue. The first healthy one is active; the next takes over
// if the first has been down for a while, or without a key that it needs (X37), and hands back after that was stable again.
// All of them stay open: a handover costs no handshake. Packets in flight at a handover may still arrive for a moment; the
// others are sent again over the new active uplink.
//
// Errors: an uplink that cannot be built is a link that is down with its reason, and the others continue. If all are down,
// the log grows within its own limits. Only a handover waits for an uplink, and for a limited time.
import type { UplinkConfig } from '../../config'
import { asOsError } from '../../lib/errors'
import { SerialQueue } from '../../lib/serial-queue'
import { systemTimers, type Timers } from '../../lib/timers'
import { nextTurn } from '../../lib/yield'
import { mediumEnabled } from '../../links/enabled'
import { withHardware } from '../../links/physical'
import { isAddressOf } from '../../links/resolve'
import { UnavailableLink } from '../../links/unavailable-link'
import type { LogRecord } from '../../log'
import { type Applied, compareLinks } from '../guard/apply'
import type { PoolWish } from '../ids'
import type { ServerSessions } from '../sessions'
import type { ForwardingReport, UplinkReport } from '../status'
import { addUplink, holding, type UplinkBuild } from './build'
import { type Candidate, choose } from './choice'
import { LOOPBACK_QUEUE, queueName } from './migrate'
import { SendQueue } from './send-queue'
import type { Uplink } from './uplink'
import { SentWatchers } from './watchers'

type Shared = Omit<
  UplinkBuild,
  'queue' | 'watchers' | 'sessions' | 'largest' | 'isSecondary' | 'changed' | 'pool' | 'onUsable' | 'ready'
>

interface UplinksParts extends Shared {
  /** ids the gateway requests for its own nodes: from the first uplink only, since ids of two could be equal */
  readonly ids: PoolWish | null
  /** corrects the time of a record that was stamped before a sync */
  readonly correct?: (record: LogRecord) => void
  /** the upstream of a machine without configured uplinks */
  readonly localUpstream: { start(): Promise<UplinkConfig>; stop(): Promise<void> }
}

interface UplinkEntry {
  readonly settings: UplinkConfig
  /** the medium's flag when it was built */
  readonly enabled: boolean
  /** null: it could not be built */
  uplink: Uplink | null
  usable: boolean
  since: number
  remove: () => Promise<void>
}

/** how long packets in flight may still arrive at a handover */
const HANDOVER_MS = 5000
const RETRY_EVERY_MS = 1000
/** largest packet while no uplink is known */
const USUAL_PACKET = 1200

export class Uplinks {
  /** reports how a record was sent, over any uplink */
  readonly watchers = new SentWatchers()
  readonly #sessions = new Map<string, ServerSessions>()
  readonly #parts: UplinksParts
  readonly #timers: Timers
  #entries: UplinkEntry[] = []
  #queue: SendQueue
  #queueName: string
  #isLocal = false
  #active: UplinkEntry | null = null
  #since: number
  #handover: Promise<void> | null = null
  readonly #applying = new SerialQueue()
  #cancelTimer: (() => void) | undefined
  #stopped = false
  #pumpsSoon = false
  #retriedAt = Number.NEGATIVE_INFINITY
  readonly #holdMs: ReturnType<typeof holding>

  constructor(parts: UplinksParts) {
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
    this.#since = parts.clock.wall()
    this.#holdMs = holding(parts)
    this.#queueName = LOOPBACK_QUEUE
    this.#queue = this.#makeQueue(LOOPBACK_QUEUE)
  }

  get names(): string[] {
    return this.#entries.map(({ settings }) => settings.name)
  }

  /** The uplinks that could be built, best first. */
  get list(): readonly Uplink[] {
    return this.#entries.flatMap(({ uplink }) => uplink ?? [])
  }

  /** The active uplink, usable or not; null before the first. */
  get active(): Uplink | null {
    return this.#active?.uplink ?? null
  }

  /** Maximum packet size of every configured uplink: the limit for one group of readings as FULL (decision 0020). */
  get maxPacket(): number {
    return Math.min(...this.list.map(uplink => uplink.maxPacket), USUAL_PACKET)
  }

  /** Facts larger than this need not wait; an uplink that could not be built may carry anything. */
  get #largest(): number {
    return Math.max(0, ...this.#entries.map(({ uplink }) => uplink?.maxPacket ?? Number.POSITIVE_INFINITY))
  }

  /** The first usable uplink that can carry facts too large for the active one. */
  get #secondary(): Uplink | null {
    if (this.#queue.oversized === 0 || this.#handover) return null
    const least = this.active?.maxPacket ?? 0
    const able = ({ usable, uplink }: UplinkEntry): boolean =>
      usable && uplink !== null && uplink.maxPacket > least && this.#queue.waiting(uplink.maxPacket, true) > 0
    return this.#entries.find(entry => entry !== this.#active && able(entry))?.uplink ?? null
  }

  /** True while an upstream answers and does not have everything yet. */
  get draining(): boolean {
    return (this.active?.draining ?? false) || (this.#secondary?.draining ?? false)
  }

  /** Keys that encrypt packets of an AID. */
  keys(aid: number): Uint8Array[] {
    return this.list.flatMap(uplink => uplink.key(aid) ?? [])
  }

  /** facts no upstream has yet */
  get backlog(): number {
    return this.#queue.backlog
  }

  /**
   * Applies the complete configured list, best first; empty: the local upstream. Unchanged uplinks keep connection, window
   * and session. Settles when every link was built; the supervisor opens them.
   */
  apply(list: readonly UplinkConfig[]): Promise<Applied> {
    return this.#applying.run(() => this.#apply(list))
  }

  /** Something may have changed: a commit, an assigned id, a sync. */
  pump(): void {
    this.active?.pump()
    this.#secondary?.pump()
  }

  /** A fact was appended: it is sent after the other facts of this turn were logged too (decision 0008). */
  appended(): void {
    if (this.#pumpsSoon) return
    this.#pumpsSoon = true
    setImmediate(() => {
      this.#pumpsSoon = false
      this.pump()
    })
  }

  /** A packet arrived from that address: opens a waiting uplink to it now, once a second at most. */
  heard(address: string): void {
    const { supervisor, clock } = this.#parts
    for (const { usable, settings } of this.#entries) {
      if (usable || !settings.host || !isAddressOf(address, settings.host)) continue
      if (clock.mono() - this.#retriedAt < RETRY_EVERY_MS) return
      this.#retriedAt = clock.mono()
      supervisor.get(settings.name)?.back()
    }
  }

  /** The scheduler's part of the progress token (decision 0046): settles after the scheduler ran, whatever the state of the uplinks. */
  token(): Promise<void> {
    this.#choose()
    this.pump()
    return nextTurn()
  }

  /** By name, in order; an uplink that could not be built is only in the links. */
  status(): Record<string, UplinkReport> {
    return Object.fromEntries(this.list.map(uplink => [uplink.name, uplink.status()]))
  }

  /** Which uplink is active, since when, and why it is not the first. */
  forwarding(): ForwardingReport {
    const { supervisor } = this.#parts
    const active = this.#active
    const better = this.#entries.slice(0, active ? this.#entries.indexOf(active) : undefined)
    const reasons = better.map(({ settings: { name }, usable }) => {
      const state = supervisor.get(name)?.state
      const reason = state && 'reason' in state ? `: ${state.reason}` : ''
      return `${name} is ${usable ? 'up again, not yet stable' : `${state?.state ?? 'away'}${reason}`}`
    })
    return {
      uplink: active?.settings.name ?? null,
      since: this.#since,
      ...(reasons.length > 0 && { reason: reasons.join('; ') }),
      cursor: this.#queue.cursor,
      backlog: this.#queue.backlog,
      ...(Number.isFinite(this.#queue.heldUntil) && { held_s: Math.ceil(this.#holdMs('unsynced') / 1000) }),
      ...(this.#queue.oversized > 0 && { aside: this.#queue.oversized }),
    }
  }

  /** Stores cursor, sessions and counters; called before the log is closed. */
  stop(): void {
    this.#stopped = true
    this.#cancelTimer?.()
    for (const { uplink } of this.#entries) uplink?.stop()
    this.#queue.saveCursor(true)
  }

  /** The local upstream has a separate cursor: the first real uplink gets everything in the log. */
  #makeQueue(name: string): SendQueue {
    const { log, clock, correct, identity } = this.#parts
    return new SendQueue(name, {
      log,
      clock,
      ownAid: () => identity.assignedId,
      ...(correct && { correct }),
      onOversized: () => queueMicrotask(() => this.#secondary?.pump()),
      // the page of the local upstream shows them at once
      holdMs: quality => (name === LOOPBACK_QUEUE ? 0 : this.#holdMs(quality)),
    })
  }

  async #apply(list: readonly UplinkConfig[]): Promise<Applied> {
    const { localUpstream, config, log } = this.#parts
    const wasLocal = this.#isLocal
    this.#isLocal = list.length === 0
    const wanted = this.#isLocal
      ? [await this.#local()]
      : list.map(settings => withHardware(bus => config.get(`RESOURCES.physical_config.${bus}`), settings))
    const before = new Map(this.#entries.map(entry => [entry.settings.name, entry]))
    const one = (settings: UplinkConfig, enabled: boolean) => ({ name: settings.name, settings, enabled })
    const running = new Map(this.#entries.map(({ settings, enabled }) => [settings.name, one(settings, enabled)]))
    const applied = compareLinks(
      running,
      wanted.map(settings => one(settings, mediumEnabled(config, settings.medium))),
    )
    for (const name of [...applied.removed, ...applied.changed]) await this.#remove(before.get(name)!)
    if (wasLocal && !this.#isLocal) await localUpstream.stop()
    const name = queueName(log, this.#isLocal, wanted)
    if (name !== this.#queueName || this.#entries.length === 0) {
      this.#queue.saveCursor(true)
      this.#queueName = name
      this.#queue = this.#makeQueue(name)
    }
    const entries: UplinkEntry[] = []
    for (const settings of wanted) {
      const kept = applied.kept.includes(settings.name) ? before.get(settings.name) : undefined
      entries.push(kept ?? (await this.#add(settings)))
    }
    this.#entries = entries
    this.#choose()
    return applied
  }

  #local(): Promise<UplinkConfig> {
    const running = this.#entries.find(({ settings }) => settings.name === 'loopback')
    return running ? Promise.resolve(running.settings) : this.#parts.localUpstream.start()
  }

  async #add(settings: UplinkConfig): Promise<UplinkEntry> {
    const { supervisor, config, clock, ids } = this.#parts
    const entry: UplinkEntry = {
      settings,
      enabled: mediumEnabled(config, settings.medium),
      uplink: null,
      usable: false,
      since: clock.mono(),
      remove: () => supervisor.remove(settings.name),
    }
    try {
      entry.remove = await addUplink(
        {
          ...this.#parts,
          queue: this.#queue,
          watchers: this.watchers,
          sessions: this.#sessions,
          largest: () => this.#largest,
          isSecondary: uplink => this.#secondary === uplink,
          changed: () => this.pump(),
          pool: () => (this.#entries[0] === entry ? ids : null),
          onUsable: () => this.#usable(entry),
          ready: uplink => {
            entry.uplink = uplink
          },
        },
        settings,
      )
    } catch (error) {
      entry.uplink = null
      supervisor.add(new UnavailableLink(settings.name, asOsError(error)))
    }
    return entry
  }

  async #remove(entry: UplinkEntry): Promise<void> {
    this.#entries = this.#entries.filter(other => other !== entry)
    if (this.#active === entry) {
      await entry.uplink?.release(HANDOVER_MS)
      this.#queue.rewind()
      this.#active = null
    }
    await entry.remove()
  }

  #usable(entry: UplinkEntry): void {
    entry.usable = entry.uplink?.usable ?? false
    entry.since = this.#parts.clock.mono()
    this.#choose()
    this.#secondary?.pump()
  }

  #choose(): void {
    if (this.#handover || this.#stopped) return
    this.#cancelTimer?.()
    const { clock, config } = this.#parts
    const { after_s, back_s } = config.config.gateway.failover
    const now = clock.mono()
    const list: Candidate[] = this.#entries.map(({ settings: { name }, usable, since }) => ({ name, usable, since }))
    const times = { afterMs: after_s * 1000, backMs: back_s * 1000 }
    const { name, next } = choose(list, this.#active?.settings.name ?? null, now, times)
    const entry = this.#entries.find(({ settings }) => settings.name === name) ?? null
    if (entry && entry !== this.#active) this.#handOver(entry)
    else if (next < Number.POSITIVE_INFINITY)
      this.#cancelTimer = this.#timers.after(Math.max(1, Math.min(next - now, 2 ** 31 - 1)), () => this.#choose())
  }

  #handOver(to: UplinkEntry): void {
    const { logger, clock } = this.#parts
    const from = this.#active
    const take = (): void => {
      this.#handover = null
      if (this.#stopped || !this.#entries.includes(to)) {
        this.#choose()
        return
      }
      this.#queue.rewind()
      this.#active = to
      this.#since = clock.wall()
      to.uplink?.activate()
      this.#choose()
    }
    if (!from?.uplink) {
      take()
      return
    }
    logger.info(`${to.settings.name} takes over from ${from.settings.name}`)
    this.#handover = from.uplink.release(HANDOVER_MS).then(take)
  }
}
