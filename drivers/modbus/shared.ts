// Buses by port or server: sources that name the same one share a bus. The first opens it, the last closes it. Errors:
// when the bus is lost, every source is notified, and the next opening opens the bus again; a source with other
// settings than those in use is refused (LINK_DOWN, retried, because a reload changes them one by one).
import { isDeepStrictEqual } from 'node:util'
import { OsError } from '../../src/lib/errors'
import type { OpenableEvents } from '../../src/links/contracts'
import type { ModbusBus } from './bus'

interface SharedBus {
  readonly bus: ModbusBus
  readonly settings: unknown
  readonly members: Set<Membership>
  readonly opened: Promise<void>
  /** set once: other sources may have reopened the bus by then */
  ended?: Promise<void>
}

const entries = new Map<string, SharedBus>()
/** sources that wait for their port to return */
const waiting = new Map<string, Set<() => void>>()
/** buses that are closing: reopening the same port waits for that */
const closing = new Map<string, Promise<void>>()

/** One source's use of a bus. */
export class Membership {
  #entry: SharedBus | undefined
  /** set by the first opening that this source performed */
  #mine: ModbusBus | undefined
  #events: OpenableEvents | undefined
  /** counts closings: an opening that was overtaken by a close counts only for its own caller */
  #closings = 0

  constructor(
    readonly key: string,
    readonly settings: unknown,
    readonly make: () => ModbusBus,
  ) {}

  /** The bus, between open and close. Throws LINK_DOWN. */
  get bus(): ModbusBus {
    if (!this.#entry) throw new OsError('LINK_DOWN', `${this.key} is closed`)
    return this.#entry.bus
  }

  /** Throws the errors of the bus, and LINK_DOWN when it is open with other settings or closed meanwhile. */
  async open(events: OpenableEvents): Promise<void> {
    const closings = this.#closings
    const closed = () => new OsError('LINK_DOWN', `${this.key} was closed while opening`)
    await closing.get(this.key)
    if (closings !== this.#closings) throw closed()
    const entry = entries.get(this.key) ?? this.#begin()
    if (!isDeepStrictEqual(entry.settings, this.settings))
      throw new OsError('LINK_DOWN', `${this.key} is in use with other settings`, {
        hint: 'give all sources of a port the same settings',
      })
    this.#entry = entry
    this.#events = events
    entry.members.add(this)
    try {
      await entry.opened
    } catch (error) {
      // do not close a later opening
      if (closings === this.#closings) await this.close()
      throw error
    }
    if (closings !== this.#closings) throw closed()
  }

  async close(): Promise<void> {
    this.#closings++
    const entry = this.#entry
    this.#entry = undefined
    this.#events = undefined
    if (!entry) return
    entry.members.delete(this)
    if (entry.members.size === 0) await end(this.key, entry)
  }

  /** Calls `back` when the port has returned, and notifies other sources that wait for the same port. */
  onReturn(back: () => void): () => void {
    const others = waiting.get(this.key) ?? new Set()
    waiting.set(this.key, others.add(back))
    const end = this.#mine?.transport.onReturn?.(() => {
      for (const notify of [...others]) notify()
    })
    return () => {
      others.delete(back)
      if (others.size === 0) waiting.delete(this.key)
      end?.()
    }
  }

  #begin(): SharedBus {
    this.#mine ??= this.make()
    const bus = this.#mine
    bus.reset()
    const members = new Set<Membership>()
    const opened = bus.transport.open({
      lost: reason => {
        // a source that opens after this reopens the bus
        void end(this.key, entry)
        for (const member of members) member.#events?.lost(reason)
      },
      degraded: reason => {
        for (const member of members) member.#events?.degraded(reason)
      },
    })
    opened.catch(() => undefined) // the caller of open() gets this error
    const entry: SharedBus = { bus, settings: this.settings, members, opened }
    entries.set(this.key, entry)
    return entry
  }
}

function end(key: string, entry: SharedBus): Promise<void> {
  entry.ended ??= finish(key, entry)
  return entry.ended
}

async function finish(key: string, entry: SharedBus): Promise<void> {
  if (entries.get(key) === entry) entries.delete(key)
  const closed = entry.bus.transport.close()
  closing.set(key, closed)
  try {
    await closed
  } finally {
    if (closing.get(key) === closed) closing.delete(key)
  }
}
