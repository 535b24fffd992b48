// Reads one source once, for `os-node source test NAME`: raw bytes and values, none of which are logged. In a running gateway
// the source's own link is read, between two reads of its schedule; a link that is down is opened immediately, and stays open
// if that succeeds. Without a gateway the source is created, opened, read and closed.
//
// Errors: an unknown source is NOT_FOUND with the existing names. A source that does not open throws its own error. One that
// does not answer within the deadline is TIMEOUT.
import { nearest, type SourceConfig } from '../../config'
import { timeout, within } from '../../lib/deadline'
import { asOsError, OsError } from '../../lib/errors'
import { systemTimers, type Timers } from '../../lib/timers'
import type { DriverContext, RawReading, Source } from '../../links/contracts'
import type { Registry } from '../../links/registry'
import type { Supervisor } from '../../links/supervisor'
import { resolve } from '../../units/canonical'

/** An entry of gateway.sources. */
export type SourceEntry = Pick<SourceConfig, 'name' | 'type' | 'deadband'>

export interface SourceItem {
  readonly name: string
  readonly type: string
  /** absent if no gateway runs */
  readonly state?: string
  readonly reason?: string
  readonly interval_ms?: number
}

export interface SourceTest {
  readonly name: string
  readonly type: string
  /** duration of opening (if it was closed) and reading */
  readonly took_ms: number
  readonly readings: readonly RawReading[]
}

const OPEN_MS = 35_000
const READ_MS = 15_000

/** The unit dialect, and other settings of a gateway or the machine. */
interface Dialect {
  /** engine_settings.unit_dialect; default: ucum */
  dialect?: string | undefined
}

/** The entry of that name. Throws NOT_FOUND with the existing names. */
function entryOf<E extends Pick<SourceEntry, 'name'>>(entries: readonly E[], name: string): E {
  const found = entries.find(entry => entry.name === name)
  if (found) return found
  const names = entries.map(entry => entry.name)
  const meant = nearest(name, names)
  throw new OsError('NOT_FOUND', `no source is named ${name}${meant ? `; did you mean ${meant}?` : ''}`, {
    hint: names.length > 0 ? `sources: ${names.join(', ')}` : 'no source runs here; see os-node status',
  })
}

/** The sources of a running gateway. */
export function listRunning(entries: readonly SourceEntry[], supervisor: Supervisor): SourceItem[] {
  const links = supervisor.links()
  return entries.map(({ name, type }) => {
    const { state, reason, interval_ms } = links[name] ?? { state: 'off' }
    return {
      name,
      type,
      state,
      ...(reason !== undefined && { reason }),
      ...(interval_ms !== undefined && { interval_ms }),
    }
  })
}

/** Tests a source of a running gateway. Throws NOT_FOUND, LINK_DOWN with the reason, TIMEOUT. */
export async function testRunning(
  entries: readonly SourceEntry[],
  supervisor: Supervisor,
  name: string,
  { clock, timers = systemTimers, dialect }: Pick<DriverContext, 'clock'> & { timers?: Timers } & Dialect,
): Promise<SourceTest> {
  const { type } = entryOf(entries, name)
  const link = supervisor.get(name)
  if (!link) throw new OsError('LINK_DOWN', `${name} is not running`, { hint: 'see os-node status' })
  const began = clock.mono()
  if (!link.usable) await reopened(supervisor, name, timers)
  if (!link.usable) {
    const { state } = link
    const why = 'reason' in state ? `: ${state.reason}` : ''
    throw new OsError('LINK_DOWN', `${name} is ${state.state}${why}`, link.hint ? { hint: link.hint } : {})
  }
  const readings = await within(
    timers,
    READ_MS,
    rawOf(link.thing as Source, dialect),
    timeout(`${name} did not answer`, READ_MS),
  )
  return { name, type, took_ms: Math.round(clock.mono() - began), readings }
}

/** Sources of a configuration without a running gateway: each is opened for its test and closed again. */
export class ConfiguredSources {
  constructor(
    readonly entries: () => Promise<readonly SourceEntry[]>,
    readonly registry: Registry,
    readonly context: DriverContext & Dialect,
    readonly timers: Timers = systemTimers,
  ) {}

  async list(): Promise<SourceItem[]> {
    return (await this.entries()).map(({ name, type }) => ({ name, type }))
  }

  /** Throws NOT_FOUND, NO_DRIVER, CONFIG_INVALID, TIMEOUT, and the errors of open. */
  async test(wanted: string): Promise<SourceTest> {
    const { timers, registry } = this
    const { name, type, deadband: _, ...options } = entryOf(await this.entries(), wanted)
    const context = { ...this.context, logger: this.context.logger.child(name) }
    const source = (await registry.sourceDriver(type)).create(name, options, context)
    const began = context.clock.mono()
    let lost: (reason: OsError) => void = () => undefined
    const gone = new Promise<never>((_, reject) => {
      lost = reject
    })
    gone.catch(() => undefined) // handled by the races below, or too late to matter
    const events = { lost: (why: string) => lost(new OsError('LINK_DOWN', why)), degraded: () => undefined }
    try {
      await within(timers, OPEN_MS, Promise.race([gone, source.open(events)]), timeout(`${name} did not open`, OPEN_MS))
      const readings = await within(
        timers,
        READ_MS,
        Promise.race([gone, rawOf(source, this.context.dialect)]),
        timeout(`${name} did not answer`, READ_MS),
      )
      return { name, type, took_ms: Math.round(context.clock.mono() - began), readings }
    } finally {
      await source.close().catch(error => context.logger.warn(`close failed: ${asOsError(error).message}`))
    }
  }
}

/** The driver's raw reading, or its values if it has no raw bytes; with what the intake would refuse. */
async function rawOf(source: Source, dialect = 'ucum'): Promise<readonly RawReading[]> {
  const readings = source.readRaw ? await source.readRaw() : await readOf(source)
  return readings.map(row => {
    const strange = dialect === 'ucum' && row.value !== null && row.error === undefined && !resolve(row.unit)
    return strange ? { ...row, error: `unit "${row.unit}" is not understood: the gateway refuses this value` } : row
  })
}

async function readOf(source: Source): Promise<readonly RawReading[]> {
  return (await source.read()).map(([sensor_id, status, value, unit]) => ({
    sensor_id,
    raw: '',
    status,
    value,
    unit: String(unit),
  }))
}

/** Opens a link that is down; waits for a link that is opening. Settles whether or not that succeeded. */
async function reopened(supervisor: Supervisor, name: string, timers: Timers): Promise<void> {
  let unlisten = (): void => undefined
  const settled = new Promise<void>(resolve => {
    unlisten = supervisor.onChange((changed, { state }) => {
      if (changed === name && state !== 'opening') resolve()
    })
  })
  try {
    if (supervisor.get(name)?.state.state !== 'opening') supervisor.reopen(name)
    if (supervisor.get(name)?.state.state !== 'disabled')
      await within(timers, OPEN_MS, settled, timeout(`${name} did not open`, OPEN_MS))
  } finally {
    unlisten()
  }
}
