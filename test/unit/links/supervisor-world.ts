// A link and a source that do what a test says, and a supervisor whose clock the test moves.
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'
import type { LinkCounters, Openable, OpenableEvents, Source, SourceReading } from '../../../src/links/contracts'
import { Supervisor, type SupervisorOptions } from '../../../src/links/supervisor'
import { ManualClock, ManualTimers } from '../../lib/manual'

export class FakeThing implements Openable {
  readonly counters: LinkCounters = { rx: 0, tx: 0, errors: 0 }
  opens = 0
  closes = 0
  /** openings running now, and the maximum at the same time */
  opening = 0
  mostOpening = 0
  events: OpenableEvents | undefined
  onOpen: (n: number) => Promise<void> | void = () => undefined
  onClose: () => Promise<void> | void = () => undefined
  constructor(readonly name: string) {}
  async open(events: OpenableEvents): Promise<void> {
    this.events = events
    this.opening++
    this.mostOpening = Math.max(this.mostOpening, this.opening)
    try {
      await this.onOpen(++this.opens)
    } finally {
      this.opening--
    }
  }
  async close(): Promise<void> {
    this.closes++
    await this.onClose()
  }
}

export class FakeSource extends FakeThing implements Source {
  readonly type = 'fake'
  reads = 0
  onRead: (n: number) => Promise<readonly SourceReading[]> = async n => [['a', 'OK', n, 'Cel']]
  constructor(
    name: string,
    readonly intervalMs = 1000,
  ) {
    super(name)
  }
  read(): Promise<readonly SourceReading[]> {
    return this.onRead(++this.reads)
  }
}

export function rig(options: Partial<SupervisorOptions> = {}) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const states: string[] = []
  const lines: string[] = []
  const got: { source: string; value: number | null; at: number; status: string }[] = []
  const supervisor = new Supervisor({
    clock,
    timers,
    logger: createLogger({ level: 'debug', write: line => lines.push(line), now: () => clock.wall() }),
    backoff: { random: () => 1 },
    onReadings: (source, rows, at) => {
      for (const row of rows) got.push({ source: source.name, value: row[2], at, status: row[1] })
    },
    ...options,
  })
  supervisor.onChange((name, state) => states.push(`${name} ${state.state}`))
  return { clock, timers, supervisor, states, lines, got }
}

export const down = () => {
  throw new OsError('LINK_DOWN', 'no answer')
}
