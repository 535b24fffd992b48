// Server-sent events (GET /api/events): newest readings, link states, jobs. The page reads them with fetch and a
// header, so that the token is not in a URL. A stream starts with the current state; then changes are sent a few times
// a second, only the newest of each reading, link and job, so that a slow reader gets fewer events, but never late
// ones.
//
// Errors: too many streams (TOO_MANY_STREAMS), an unknown word in `kinds` (BAD_REQUEST). A reader that does not read is
// closed by the server's time-out; one whose session or token ends is closed within seconds.
import type { ServerResponse } from 'node:http'
import { briefJob, type Job } from '../commands/jobs'
import { OsError } from '../lib/errors'
import { systemTimers, type Timers } from '../lib/timers'
import { mayAct, type Role } from '../services/users'
import type { LatestReading, WebContext } from './context'
import { displayedReading, wantsDisplay } from './display-units'
import { addressKey } from './login-throttle'
import type { Call } from './route'

const EVENT_KINDS = ['readings', 'links', 'jobs'] as const
type Kind = (typeof EVENT_KINDS)[number]

const FLUSH_MS = 250
/** also how often the session of a stream is checked */
const BEAT_MS = 10_000
const MAX_STREAMS = 32
/** limits per user and per address, so that others have room */
const MAX_PER_USER = 12
const MAX_PER_ADDRESS = 16
/** groups of readings that may be queued for one reader */
const MAX_READINGS = 1024

interface Stream {
  readonly username: string
  readonly address: string
  readonly readings: Map<string, LatestReading>
  readonly links: Set<string>
  readonly jobs: Map<string, Job>
  /** units=display */
  readonly display: boolean
  cancelFlush: (() => void) | undefined
  close(): void
}

const keyOf = ({ medium, source_aid, device_id, sensors }: LatestReading): string =>
  `${medium} ${source_aid} ${device_id} ${sensors.length} ${sensors[0]?.id ?? ''}`

/** `kinds` of a query: all if none is named. Throws BAD_REQUEST. */
export function parseKinds(kinds: string | undefined): ReadonlySet<Kind> {
  const names = (kinds ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(Boolean)
  const unknown = names.find(name => !EVENT_KINDS.includes(name as Kind))
  if (unknown !== undefined)
    throw new OsError('BAD_REQUEST', `kinds must be of ${EVENT_KINDS.join(', ')}`, { details: { key: 'kinds' } })
  return new Set(names.length > 0 ? (names as Kind[]) : EVENT_KINDS)
}

export class EventStreams {
  readonly #streams = new Set<Stream>()
  readonly #timers: Timers
  /** readings dropped before a slow reader got them */
  dropped = 0

  constructor(timers: Timers = systemTimers) {
    this.#timers = timers
  }

  get size(): number {
    return this.#streams.size
  }

  open(call: Call, res: ServerResponse): void {
    const { context, session, access, request } = call
    const kinds = parseKinds(call.query.kinds as string | undefined)
    const [username, address] = [session.username, addressKey(call.remote)]
    this.#bound(MAX_STREAMS, '', () => true)
    this.#bound(MAX_PER_USER, ` of ${username}`, stream => stream.username === username)
    this.#bound(MAX_PER_ADDRESS, ' from this address', stream => stream.address === address)
    const stream: Stream = {
      username,
      address,
      readings: new Map(),
      links: new Set(),
      jobs: new Map(),
      display: wantsDisplay(call.query),
      cancelFlush: undefined,
      close: () => res.end(),
    }
    this.#streams.add(stream)
    res.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' })
    res.write('retry: 2000\n\n')
    const soon = (): void => {
      stream.cancelFlush ??= this.#timers.after(FLUSH_MS, () => {
        stream.cancelFlush = undefined
        // queued changes stay, the newest of each; drain or the next event calls this again
        if (!res.writableNeedDrain) this.#flush(stream, res, context)
      })
    }
    const ends = this.#listen(stream, context, kinds, needed => mayAct(session.role, needed), soon)
    res.on('drain', soon)
    let cancelBeat = (): void => undefined
    const beat = (): void => {
      if (!access.holds(request)) {
        stream.close()
        return
      }
      if (!res.writableNeedDrain) res.write(': alive\n\n')
      cancelBeat = this.#timers.after(BEAT_MS, beat)
    }
    cancelBeat = this.#timers.after(BEAT_MS, beat)
    res.once('close', () => {
      for (const end of ends) end()
      stream.cancelFlush?.()
      cancelBeat()
      this.#streams.delete(stream)
    })
    this.#flush(stream, res, context)
  }

  /** Throws TOO_MANY_STREAMS. */
  #bound(most: number, whose: string, ofKind: (stream: Stream) => boolean): void {
    if ([...this.#streams].filter(ofKind).length < most) return
    throw new OsError('TOO_MANY_STREAMS', `${most} streams${whose} are open already`)
  }

  /** Ends every stream; pages reconnect automatically. */
  closeAll(): void {
    for (const stream of this.#streams) stream.close()
  }

  #listen(
    stream: Stream,
    { events, jobs, latest, status }: WebContext,
    kinds: ReadonlySet<Kind>,
    mayAct: (needed: Role) => boolean,
    soon: () => void,
  ): (() => void)[] {
    const ends: (() => void)[] = []
    if (kinds.has('readings')) {
      for (const reading of latest()) stream.readings.set(keyOf(reading), reading)
      ends.push(
        events.onReading(reading => {
          this.#note(stream, reading)
          soon()
        }),
      )
    }
    if (kinds.has('links')) {
      for (const name of Object.keys(status().links)) stream.links.add(name)
      ends.push(
        events.onLink(({ name }) => {
          stream.links.add(name)
          soon()
        }),
      )
    }
    if (kinds.has('jobs'))
      ends.push(
        jobs.onJob((job, needed) => {
          if (!mayAct(needed)) return
          stream.jobs.set(job.job_id, job)
          soon()
        }),
      )
    return ends
  }

  /** No LruMap: a newer value of a sensor keeps its position. */
  #note(stream: Stream, reading: LatestReading): void {
    const key = keyOf(reading)
    stream.readings.set(key, reading)
    if (stream.readings.size <= MAX_READINGS) return
    this.dropped++
    stream.readings.delete(stream.readings.keys().next().value!)
  }

  #flush(stream: Stream, res: ServerResponse, { status }: WebContext): void {
    let text = ''
    const say = (event: string, data: object): void => {
      text += `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
    }
    for (const reading of stream.readings.values()) say('reading', stream.display ? displayedReading(reading) : reading)
    const links = stream.links.size > 0 ? status().links : {}
    for (const name of stream.links) say('link', { name, ...(links[name] ?? { state: 'removed' }) })
    for (const job of stream.jobs.values()) say('job', briefJob(job))
    stream.readings.clear()
    stream.links.clear()
    stream.jobs.clear()
    if (text !== '') res.write(text)
  }
}
