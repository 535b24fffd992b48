// The roads upstream as one (D6): an ordered list with one shared cursor. The first healthy one carries, the next takes over
// when it has been away for a while, and gives it back when it was stable again. All of them stay open: a take-over costs no
// handshake. What was on its way at a handover may arrive for a moment; the rest goes again over the new one.
//
// What fails: an uplink that cannot be built is a link that is down with its reason, and the others carry. With every one of
// them dead the log grows within its own bounds; nothing here ever waits for an uplink but a handover, and that not long.
import { isDeepStrictEqual } from 'node:util'
import type { UplinkConfig } from '../../config'
import { asOsError } from '../../lib/errors'
import { systemTimers, type Timers } from '../../lib/timers'
import { mediumEnabled } from '../../links/enabled'
import { withHardware } from '../../links/physical'
import { isAddressOf } from '../../links/resolve'
import { MissingLink } from '../../links/unavailable-link'
import type { LogRecord } from '../../log'
import type { SecureSessions } from '../../protocol/secure/sessions'
import type { Applied } from '../guard/apply'
import type { PoolWish } from '../ids'
import type { ForwardingReport, UplinkReport } from '../status'
import { addUplink, holding, type UplinkBuild } from './build'
import { type Candidate, choose } from './choice'
import { LOOPBACK_QUEUE, queueName } from './migrate'
import { SendQueue } from './send-queue'
import type { Uplink } from './uplink'
import { SentWatchers } from './watchers'

type Given = Omit<
  UplinkBuild,
  'queue' | 'watchers' | 'sessions' | 'largest' | 'helps' | 'changed' | 'pool' | 'onUsable' | 'ready'
>

export interface UplinksParts extends Given {
  /** ids the gateway wants for nodes of its own: the first uplink is asked, or ids of two could be the same */
  readonly ids: PoolWish | null
  /** puts the time of a record right that was stamped before a sync */
  readonly correct?: (record: LogRecord) => void
  /** the upstream of a machine without uplinks */
  readonly standIn: { start(): Promise<UplinkConfig>; stop(): Promise<void> }
}

interface Entry {
  readonly settings: UplinkConfig
  /** the medium's flag when it was built */
  readonly enabled: boolean
  /** null: it could not be built */
  uplink: Uplink | null
  usable: boolean
  since: number
  remove: () => Promise<void>
}

/** how long what is on its way may still arrive at a handover */
const HANDOVER_MS = 5000
const HEARD_EVERY_MS = 1000
/** largest packet where no uplink is known yet */
const USUAL_PACKET = 1200

export class Uplinks {
  /** tells how a record left, whoever carried it */
  readonly watchers = new SentWatchers()
  readonly #sessions = new Map<string, SecureSessions>()
  readonly #parts: UplinksParts
  readonly #timers: Timers
  #entries: Entry[] = []
  #queue: SendQueue
  #queueName: string
  #standsIn = false
  #carrying: Entry | null = null
  #since: number
  #handover: Promise<void> | null = null
  #applying: Promise<unknown> = Promise.resolve()
  #cancelTimer: (() => void) | undefined
  #stopped = false
  #pumpsSoon = false
  #heardAt = Number.NEGATIVE_INFINITY
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

  /** Who carries now, usable or not; null before the first one could. */
  get carrying(): Uplink | null {
    return this.#carrying?.uplink ?? null
  }

  /** Bytes that fit into every configured uplink: what one group of readings may take as FULL (D6). */
  get maxPacket(): number {
    return Math.min(...this.list.map(uplink => uplink.maxPacket), USUAL_PACKET)
  }

  /** What no uplink could carry need not wait; of one that could not be built nobody knows. */
  get #largest(): number {
    return Math.max(0, ...this.#entries.map(({ uplink }) => uplink?.maxPacket ?? Number.POSITIVE_INFINITY))
  }

  /** The first that works and can carry what is too large for the one that carries. */
  get #secondary(): Uplink | null {
    if (this.#queue.oversized === 0 || this.#handover) return null
    const least = this.carrying?.maxPacket ?? 0
    const able = ({ usable, uplink }: Entry): boolean =>
      usable && uplink !== null && uplink.maxPacket > least && this.#queue.waiting(uplink.maxPacket, true) > 0
    return this.#entries.find(entry => entry !== this.#carrying && able(entry))?.uplink ?? null
  }

  /** True while an upstream answers and does not have everything yet. */
  get draining(): boolean {
    return (this.carrying?.draining ?? false) || (this.#secondary?.draining ?? false)
  }

  /** Keys that packets of an AID go out under. */
  keys(aid: number): Uint8Array[] {
    return this.list.flatMap(uplink => uplink.key(aid) ?? [])
  }

  /** facts no upstream has yet */
  get backlog(): number {
    return this.#queue.backlog
  }

  /**
   * The whole configured list, best first; empty: the gateway's own upstream. What did not change keeps its connection, window
   * and session. Settles when every link was built; the supervisor opens them.
   */
  apply(list: readonly UplinkConfig[]): Promise<Applied> {
    const done = this.#applying.then(() => this.#apply(list))
    this.#applying = done.catch(() => undefined) // told to who called
    return done
  }

  /** Something may have changed: a commit, an assigned id, a sync. */
  pump(): void {
    this.carrying?.pump()
    this.#secondary?.pump()
  }

  /** A fact was appended: it goes out when this turn's others are in the log too (D24). */
  appended(): void {
    if (this.#pumpsSoon) return
    this.#pumpsSoon = true
    setImmediate(() => {
      this.#pumpsSoon = false
      this.pump()
    })
  }

  /** A packet of that address came another way: an uplink to it that waits is tried now, once a second at most. */
  heard(address: string): void {
    const { supervisor, clock } = this.#parts
    for (const { usable, settings } of this.#entries) {
      if (usable || !settings.host || !isAddressOf(address, settings.host)) continue
      if (clock.mono() - this.#heardAt < HEARD_EVERY_MS) return
      this.#heardAt = clock.mono()
      supervisor.get(settings.name)?.back()
    }
  }

  /** The progress token's turn here (D14): settles when the scheduler had its turn, however the uplinks are. */
  token(): Promise<void> {
    this.#choose()
    this.pump()
    return new Promise(resolve => setImmediate(resolve))
  }

  /** By name, in order; one that could not be built is only in the links. */
  status(): Record<string, UplinkReport> {
    return Object.fromEntries(this.list.map(uplink => [uplink.name, uplink.status()]))
  }

  /** Who carries, since when, and why it is not the first. */
  forwarding(): ForwardingReport {
    const { supervisor } = this.#parts
    const carrying = this.#carrying
    const better = this.#entries.slice(0, carrying ? this.#entries.indexOf(carrying) : undefined)
    const reasons = better.map(({ settings: { name }, usable }) => {
      const state = supervisor.get(name)?.state
      const reason = state && 'reason' in state ? `: ${state.reason}` : ''
      return `${name} is ${usable ? 'up again and watched' : `${state?.state ?? 'away'}${reason}`}`
    })
    return {
      uplink: carrying?.settings.name ?? null,
      since: this.#since,
      ...(reasons.length > 0 && { reason: reasons.join('; ') }),
      cursor: this.#queue.cursor,
      backlog: this.#queue.backlog,
      ...(Number.isFinite(this.#queue.heldUntil) && { held_s: Math.ceil(this.#holdMs('unsynced') / 1000) }),
      ...(this.#queue.oversized > 0 && { aside: this.#queue.oversized }),
    }
  }

  /** Keeps cursor, sessions and counters; called before the log is closed. */
  stop(): void {
    this.#stopped = true
    this.#cancelTimer?.()
    for (const { uplink } of this.#entries) uplink?.stop()
    this.#queue.saveCursor(true)
  }

  /** What the loopback had was for nobody else: it has a cursor of its own. */
  #makeQueue(name: string): SendQueue {
    const { log, clock, correct } = this.#parts
    return new SendQueue(name, {
      log,
      clock,
      ...(correct && { correct }),
      onOversized: () => queueMicrotask(() => this.#secondary?.pump()),
      holdMs: quality => this.#holdMs(quality),
    })
  }

  async #apply(list: readonly UplinkConfig[]): Promise<Applied> {
    const { standIn, config, log } = this.#parts
    const stoodIn = this.#standsIn
    this.#standsIn = list.length === 0
    const wanted = this.#standsIn
      ? [await this.#standIn()]
      : list.map(settings => withHardware(bus => config.get(`RESOURCES.physical_config.${bus}`), settings))
    const names = new Set(wanted.map(({ name }) => name))
    const before = new Map(this.#entries.map(entry => [entry.settings.name, entry]))
    const same = (entry: Entry | undefined, settings: UplinkConfig): boolean =>
      entry !== undefined &&
      isDeepStrictEqual(entry.settings, settings) &&
      entry.enabled === mediumEnabled(config, settings.medium)
    const applied: Applied = { added: [], removed: [], changed: [], kept: [] }
    for (const { settings } of this.#entries) if (!names.has(settings.name)) applied.removed.push(settings.name)
    for (const settings of wanted) {
      const entry = before.get(settings.name)
      const into = !entry ? applied.added : same(entry, settings) ? applied.kept : applied.changed
      into.push(settings.name)
    }
    for (const name of [...applied.removed, ...applied.changed]) await this.#remove(before.get(name)!)
    if (stoodIn && !this.#standsIn) await standIn.stop()
    const name = queueName(log, this.#standsIn, wanted)
    if (name !== this.#queueName || this.#entries.length === 0) {
      this.#queue.saveCursor(true)
      this.#queueName = name
      this.#queue = this.#makeQueue(name)
    }
    const entries: Entry[] = []
    for (const settings of wanted) {
      const kept = applied.kept.includes(settings.name) ? before.get(settings.name) : undefined
      entries.push(kept ?? (await this.#add(settings)))
    }
    this.#entries = entries
    this.#choose()
    return applied
  }

  #standIn(): Promise<UplinkConfig> {
    const running = this.#entries.find(({ settings }) => settings.name === 'loopback')
    return running ? Promise.resolve(running.settings) : this.#parts.standIn.start()
  }

  async #add(settings: UplinkConfig): Promise<Entry> {
    const { supervisor, config, clock, ids } = this.#parts
    const entry: Entry = {
      settings,
      enabled: mediumEnabled(config, settings.medium),
      uplink: null,
      usable: false,
      since: clock.mono(),
      remove: () => supervisor.remove(settings.name),
    }
    try {
      const remove = await addUplink(
        {
          ...this.#parts,
          queue: this.#queue,
          watchers: this.watchers,
          sessions: this.#sessions,
          largest: () => this.#largest,
          helps: uplink => this.#secondary === uplink,
          changed: () => this.pump(),
          pool: () => (this.#entries[0] === entry ? ids : null),
          onUsable: () => this.#usable(entry),
          ready: uplink => {
            entry.uplink = uplink
          },
        },
        settings,
      )
      entry.remove = remove
    } catch (error) {
      entry.uplink = null
      supervisor.add(new MissingLink(settings.name, asOsError(error)))
    }
    return entry
  }

  async #remove(entry: Entry): Promise<void> {
    this.#entries = this.#entries.filter(other => other !== entry)
    if (this.#carrying === entry) {
      await entry.uplink?.release(HANDOVER_MS)
      this.#queue.rewind()
      this.#carrying = null
    }
    await entry.remove()
  }

  #usable(entry: Entry): void {
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
    const { name, next } = choose(list, this.#carrying?.settings.name ?? null, now, times)
    const entry = this.#entries.find(({ settings }) => settings.name === name) ?? null
    if (entry && entry !== this.#carrying) this.#hand(entry)
    else if (next < Number.POSITIVE_INFINITY)
      this.#cancelTimer = this.#timers.after(Math.max(1, Math.min(next - now, 2 ** 31 - 1)), () => this.#choose())
  }

  #hand(to: Entry): void {
    const { logger, clock } = this.#parts
    const from = this.#carrying
    const take = (): void => {
      this.#handover = null
      if (this.#stopped || !this.#entries.includes(to)) {
        this.#choose()
        return
      }
      this.#queue.rewind()
      this.#carrying = to
      this.#since = clock.wall()
      to.uplink?.carry()
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
