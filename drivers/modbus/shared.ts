// Buses by what they are plugged into: several sources name the same port or server and share one. The first that opens
// opens it, the last that closes closes it. What fails: the bus is lost → every source of it is notified, and the next that
// opens opens it anew; a source that wants other settings than those it is open with is refused (LINK_DOWN, tried again:
// a reload changes them one by one).
import { isDeepStrictEqual } from 'node:util'
import { OsError } from '../../src/lib/errors'
import type { OpenableEvents } from '../../src/links/contracts'
import type { ModbusBus } from './bus'

interface Entry {
  readonly bus: ModbusBus
  readonly settings: unknown
  readonly members: Set<Membership>
  readonly opened: Promise<void>
  /** set once: the bus may be open again for others by then */
  ended?: Promise<void>
}

const entries = new Map<string, Entry>()
/** sources that wait for a port to come back */
const waiting = new Map<string, Set<() => void>>()
/** buses that are being closed: opening the same port again waits for that */
const closing = new Map<string, Promise<void>>()

/** One source's hold on a bus. */
export class Membership {
  #entry: Entry | undefined
  /** made at the first opening that fell to this one */
  #mine: ModbusBus | undefined
  #events: OpenableEvents | undefined
  /** counts closings: an opening begun before one counts only for its own caller */
  #closings = 0

  constructor(
    readonly key: string,
    readonly settings: unknown,
    readonly make: () => ModbusBus,
  ) {}

  /** The bus, from open to close. Throws LINK_DOWN. */
  get bus(): ModbusBus {
    if (!this.#entry) throw new OsError('LINK_DOWN', `${this.key} is closed`)
    return this.#entry.bus
  }

  /** Throws what the bus throws, and LINK_DOWN when it is open with other settings or closed meanwhile. */
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
      // not what was opened since
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

  /** Tells that the port is back; others that wait for the same one are notified too. */
  onReturn(back: () => void): () => void {
    const others = waiting.get(this.key) ?? new Set()
    waiting.set(this.key, others.add(back))
    const end = this.#mine?.transport.onReturn?.(() => {
      for (const tell of [...others]) tell()
    })
    return () => {
      others.delete(back)
      if (others.size === 0) waiting.delete(this.key)
      end?.()
    }
  }

  #begin(): Entry {
    this.#mine ??= this.make()
    const bus = this.#mine
    bus.reset()
    const members = new Set<Membership>()
    const opened = bus.transport.open({
      lost: reason => {
        // a source that opens again from now on opens the bus anew
        void end(this.key, entry)
        for (const member of members) member.#events?.lost(reason)
      },
      degraded: reason => {
        for (const member of members) member.#events?.degraded(reason)
      },
    })
    opened.catch(() => undefined) // the opener gets its error
    const entry: Entry = { bus, settings: this.settings, members, opened }
    entries.set(this.key, entry)
    return entry
  }
}

function end(key: string, entry: Entry): Promise<void> {
  entry.ended ??= finish(key, entry)
  return entry.ended
}

async function finish(key: string, entry: Entry): Promise<void> {
  if (entries.get(key) === entry) entries.delete(key)
  const closed = entry.bus.transport.close()
  closing.set(key, closed)
  try {
    await closed
  } finally {
    if (closing.get(key) === closed) closing.delete(key)
  }
}
