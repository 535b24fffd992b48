// Asks a device before every reading: sends a text and waits until every channel was heard, or for as long as an answer may
// take. What fails: no answer (the reading shows what is missing), a question that cannot be written (the read throws, the
// link is lost).
import { within } from '../../src/lib/deadline'
import { OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { Timers } from '../../src/lib/timers'
import type { OpenableEvents, RawReading, Source, SourceReading } from '../../src/links/contracts'
import type { Feed, LatestSource, Take } from '../kit/latest-source'

/** A line; where several links share it, `exclusive` keeps question and answer undisturbed. */
export interface QueriedLine {
  write(bytes: Uint8Array): Promise<void>
  exclusive?<T>(run: () => Promise<T>): Promise<T>
}

export class Question implements Feed {
  readonly detail: Feed['detail']
  readonly #feed: Feed
  readonly #line: QueriedLine
  readonly #text: Uint8Array
  readonly #timeoutMs: number
  readonly #timers: Timers
  /** channels that this question has no value of yet */
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

  /** Settles when every channel was heard, or after the time an answer may take. Throws when nothing could be sent. */
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

/** A latest-value source that asks before it reads. */
export class AskingSource implements Source {
  readonly name: string
  readonly type: string
  readonly intervalMs: number
  readonly #inner: LatestSource
  readonly #question: Question
  readonly #turns = new SerialQueue()

  constructor(inner: LatestSource, question: Question) {
    this.name = inner.name
    this.type = inner.type
    this.intervalMs = inner.intervalMs
    this.#inner = inner
    this.#question = question
  }

  get sensors(): LatestSource['sensors'] {
    return this.#inner.sensors
  }

  get counters(): LatestSource['counters'] {
    return this.#inner.counters
  }

  whyNot(id: string): string | undefined {
    return this.#inner.whyNot(id)
  }

  open(events: OpenableEvents): Promise<void> {
    return this.#inner.open(events)
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  async read(): Promise<readonly SourceReading[]> {
    return this.#turn(() => this.#inner.read())
  }

  async readRaw(): Promise<readonly RawReading[]> {
    // what did not come as an answer does not come by itself
    return this.#turn(() => this.#inner.readRaw(0))
  }

  /** A test and the schedule take turns. */
  #turn<T>(then: () => Promise<T>): Promise<T> {
    return this.#turns.run(async () => {
      try {
        await this.#question.ask()
      } catch (cause) {
        throw cause instanceof OsError
          ? cause
          : new OsError('LINK_DOWN', `${this.name}: the question was not sent`, { cause })
      }
      return then()
    })
  }
}
