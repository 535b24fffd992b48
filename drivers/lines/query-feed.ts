// Queries a device before every reading: sends a text and waits until every channel is received, or until the time
// limit of the answer. Errors: no answer (the reading shows which channels are missing); a query that cannot be written
// (the read throws, the link is lost).
import { within } from '../../src/lib/deadline'
import { OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { Timers } from '../../src/lib/timers'
import type { OpenableEvents, RawReading, SourceReading } from '../../src/links/contracts'
import { type Feed, type LatestOptions, LatestSource, type Take } from '../kit/latest-source'

/** A serial line; if several links share it, `exclusive` keeps other queries out until the answer has arrived. */
export interface QueriedLine {
  write(bytes: Uint8Array): Promise<void>
  exclusive?<T>(run: () => Promise<T>): Promise<T>
}

export class QueryFeed implements Feed {
  readonly detail: Feed['detail']
  readonly #feed: Feed
  readonly #line: QueriedLine
  readonly #text: Uint8Array
  readonly #timeoutMs: number
  readonly #timers: Timers
  /** channels without a value since this query */
  readonly #missing = new Set<number>()
  readonly #count: number
  #answered: () => void = () => undefined

  constructor(
    feed: Feed,
    line: QueriedLine,
    options: { text: Uint8Array; timeoutMs: number; channels: number; timers: Timers },
  ) {
    this.detail = feed.detail
    this.#feed = feed
    this.#line = line
    this.#text = options.text
    this.#timeoutMs = options.timeoutMs
    this.#timers = options.timers
    this.#count = options.channels
  }

  open(events: OpenableEvents, take: Take): Promise<void> {
    return this.#feed.open(events, (index, value, error) => {
      take(index, value, error)
      this.#missing.delete(index)
      if (this.#missing.size === 0) this.#answered()
    })
  }

  async close(): Promise<void> {
    await this.#feed.close()
    this.#answered()
  }

  raw(index: number): string {
    return this.#feed.raw(index)
  }

  /** Resolves when every channel is received, or after the time limit of the answer. Throws if nothing could be sent. */
  ask(): Promise<void> {
    const run = async (): Promise<void> => {
      for (let k = 0; k < this.#count; k++) this.#missing.add(k)
      const answer = new Promise<void>(resolve => {
        this.#answered = resolve
      })
      await this.#line.write(this.#text)
      await within(this.#timers, this.#timeoutMs, answer, () => undefined)
    }
    return this.#line.exclusive ? this.#line.exclusive(run) : run()
  }
}

/** A latest-value source that queries its device before each read. */
export class QuerySource extends LatestSource {
  readonly #queryFeed: QueryFeed
  readonly #turns = new SerialQueue()

  constructor(name: string, options: LatestOptions, queryFeed: QueryFeed) {
    super(name, options, queryFeed)
    this.#queryFeed = queryFeed
  }

  override read(): Promise<readonly SourceReading[]> {
    return this.#turn(() => super.read())
  }

  override readRaw(): Promise<readonly RawReading[]> {
    // channels that the answer lacks will not arrive later
    return this.#turn(() => super.readRaw(0))
  }

  /** Serializes a test and the schedule. */
  #turn<T>(then: () => Promise<T>): Promise<T> {
    return this.#turns.run(async () => {
      try {
        await this.#queryFeed.ask()
      } catch (cause) {
        throw cause instanceof OsError
          ? cause
          : new OsError('LINK_DOWN', `${this.name}: the query was not sent`, { cause })
      }
      return then()
    })
  }
}
