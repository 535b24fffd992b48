// Passes every configured source to the supervisor and its readings to the intake.
// Errors: a source that cannot be created (unknown type, wrong options) is a link that is down with its reason. Readings that
// the intake refuses are counted per source, and the link is degraded with their reason. A sensor id that another source
// already has gets the name of the later source as a prefix.
import { isDeepStrictEqual } from 'node:util'
import { counted } from '../../lib/counted'
import { asOsError } from '../../lib/errors'
import { yieldToLoop } from '../../lib/yield'
import type { Source, SourceReading } from '../../links/contracts'
import { COMMON, knownOptions } from '../../links/driver-options'
import { hostOf } from '../../links/network'
import { UnavailableLink } from '../../links/unavailable-link'
import type { FlashLog } from '../../log'
import type { RejectedRow } from '../../pipeline/core'
import type { Fact } from '../../pipeline/fact'
import { resolveAttribute } from '../../units/attribute'
import { resolve } from '../../units/canonical'
import { type Applied, compareLinks } from '../guard/apply'
import { unitWarnings } from '../guard/check-sensors'
import type { LinkDeps } from '../link-deps'
import { KeptCounts } from './counts'
import { Deadband } from './deadband'
import type { Intake } from './intake'
import { SourceOutputs } from './outputs'
import { SensorIds } from './sensor-ids'
import { listRunning, type SourceEntry, type SourceItem, type SourceTest, testRunning } from './test-source'

interface Running {
  readonly entry: SourceEntry
  readonly band: Deadband
  /** why sensors were refused in the last sample; logged once */
  reported: string
  /** readings refused since the start */
  refused: number
  /** its first sample was checked */
  seen: boolean
  /** sensors without a value in the newest sample: logged id → id of the driver */
  failing: ReadonlyMap<string, string>
}

/** A source that is not opened yet, or the reason why it could not be created. */
interface Made {
  readonly name: string
  readonly source: Source | UnavailableLink
  /** the ids it has before it is opened */
  readonly ids: readonly string[]
  readonly opening?: Parameters<LinkDeps['supervisor']['add']>[1]
}

const NONE: ReadonlyMap<string, string> = new Map()

/** the part of an entry that the driver gets */
const optionsOf = ({ deadband: _, ...options }: SourceEntry): Omit<SourceEntry, 'deadband'> => options

export class Sources {
  readonly #parts: LinkDeps
  readonly #intake: Intake
  readonly #running = new Map<string, Running>()
  readonly #ids = new SensorIds()
  readonly #onGone: (ids: readonly string[]) => void
  readonly #counts: KeptCounts
  /** the first apply() since the start */
  #first = true
  /** newest logged value of each sensor, until the first apply() has ended */
  readonly #last = new Map<string, { readonly unit: string; readonly value: number }>()

  /** `onGone`: gets the ids of closed sources */
  constructor(
    parts: LinkDeps,
    intake: Intake,
    log: FlashLog,
    onGone: (ids: readonly string[]) => void = () => undefined,
  ) {
    this.#onGone = onGone
    this.#parts = parts
    this.#intake = intake
    this.#counts = new KeptCounts(log)
    parts.supervisor.onReadings((source, readings) => {
      const running = this.#running.get(source.name)
      if (running) this.#take(running, readings)
    })
  }

  get names(): string[] {
    return [...this.#running.keys()]
  }

  /** `os-node source list` */
  async list(): Promise<SourceItem[]> {
    return listRunning(this.#entries, this.#parts.supervisor)
  }

  /** Reads a source once, outside its schedule. Throws NOT_FOUND, LINK_DOWN, TIMEOUT. */
  async test(name: string): Promise<SourceTest> {
    const { clock, config, supervisor } = this.#parts
    const dialect = config.config.engine_settings.unit_dialect
    const test = await testRunning(this.#entries, supervisor, name, { clock, dialect })
    const readings = test.readings.map(row => ({ ...row, sensor_id: this.#ids.nameOf(name, row.sensor_id) }))
    return { ...test, readings }
  }

  /** refused readings per source since the start; sources without any are left out */
  refused(): Record<string, number> {
    const all = [...this.#running].filter(([, { refused }]) => refused > 0)
    return Object.fromEntries(all.map(([name, { refused }]) => [name, refused]))
  }

  /** Why a sensor of this gateway, by its logged id, has no value; undefined if it has one or the driver gives no reason. */
  whyNot(id: string): string | undefined {
    for (const [name, { failing }] of this.#running) {
      const native = failing.get(id)
      if (native === undefined) continue
      const link = this.#parts.supervisor.get(name)
      const state = link?.state
      return (
        (link?.thing as Partial<Source> | undefined)?.whyNot?.(native) ??
        (state && 'reason' in state ? state.reason : '')
      )
    }
    return undefined
  }

  /** A fact logged before this start. Called oldest first, before the first apply(). */
  remember({ sensors }: Fact): void {
    for (const { id, unit, value } of sensors) if (value !== null) this.#last.set(id, { unit, value })
  }

  /** The newest logged value of a sensor in its own unit. */
  #lastOf(source: string, id: string, unit: string): number | undefined {
    const last = this.#last.get(this.#ids.nameOf(source, id))
    const attribute = this.#parts.config.config.engine_settings.unit_dialect === 'attribute'
    const conversion = (attribute ? resolveAttribute : resolve)(unit)
    return last && conversion?.canonical === last.unit
      ? (last.value - conversion.offset) / conversion.factor
      : undefined
  }

  /** the outputs of the sources */
  get outputs(): SourceOutputs {
    const { logger, supervisor } = this.#parts
    return new SourceOutputs(() => this.names, supervisor, logger)
  }

  get #entries(): SourceEntry[] {
    return [...this.#running.values()].map(({ entry }) => entry)
  }

  /**
   * Makes the list the running sources: removed or changed sources are closed, new ones are opened, the others stay open. A
   * source of which only the deadband changed stays open too. Never throws.
   */
  async apply(list: readonly SourceEntry[]): Promise<Applied> {
    const { supervisor } = this.#parts
    const known = new Map([...this.#running].map(([name, { entry }]) => [name, entry]))
    const applied = compareLinks(known, list)
    const left: (undefined | (() => Promise<void>))[] = []
    const wanted = new Map(list.map(entry => [entry.name, entry]))
    for (const [k, name] of [...applied.removed, ...applied.changed].entries()) {
      // yield to the event loop: the list may be long
      if (k % 20 === 19) await yieldToLoop()
      const next = wanted.get(name)
      if (next && isDeepStrictEqual(optionsOf(next), optionsOf(known.get(name)!))) continue
      left.push((supervisor.get(name)?.thing as Partial<Source> | undefined)?.handOn?.())
      await supervisor.remove(name)
      this.#running.delete(name)
      this.#onGone(this.#ids.release(name))
    }
    const kept = new Set(applied.kept)
    const made: Made[] = []
    for (const [k, entry] of list.entries()) {
      if (kept.has(entry.name)) continue
      if (k % 20 === 19) await yieldToLoop()
      const open = this.#running.has(entry.name)
      this.#running.set(entry.name, {
        entry,
        band: new Deadband(entry.deadband ?? 0),
        reported: '',
        refused: this.#running.get(entry.name)?.refused ?? 0,
        seen: false,
        failing: NONE,
      })
      if (!open) made.push(await this.#make(entry))
    }
    this.#ids.configured(made.flatMap(({ ids }) => ids))
    for (const one of made) this.#add(one)
    this.#last.clear()
    this.#first = false
    const opened = [...applied.added, ...applied.changed].map(name => supervisor.get(name)?.tried)
    if (left.some(Boolean)) void Promise.all(opened).then(() => this.#letGo(left))
    return applied
  }

  async #letGo(left: readonly (undefined | (() => Promise<void>))[]): Promise<void> {
    for (const letGo of left)
      await letGo?.().catch(error => this.#parts.logger.warn(`a line was not released: ${asOsError(error).message}`))
  }

  async #make(entry: SourceEntry): Promise<Made> {
    const { clock, config, logger, registry } = this.#parts
    const { name, type, ...typed } = optionsOf(entry)
    for (const warning of unitWarnings(entry)) logger.warn(warning)
    try {
      const driver = await registry.sourceDriver(type)
      // a file edited by hand or of another version: use the known options
      const { options, unknown } = driver.schema
        ? knownOptions(driver.schema, typed, COMMON)
        : { options: typed, unknown: [] }
      for (const { path, text } of unknown) logger.warn(`source ${name}, ${path.join('.')}: ${text}; it is ignored`)
      const optional = config.config.gateway.sources === null || (driver.ofMachine === true && !('match' in typed))
      const source = driver.create(name, options, { clock, logger: logger.child(name) })
      const ids = (await source.sensors)?.map(({ id }) => id) ?? []
      return { name, source, ids, opening: { ...hostOf(typed), optional } }
    } catch (error) {
      return { name, source: new UnavailableLink(name, asOsError(error)), ids: [] }
    }
  }

  #add({ name, source, ids, opening }: Made): void {
    // before it is opened: the order of the configuration decides, not which device answers first
    this.#claim(name, ids)
    const logged = (id: string, unit: string): number | undefined => this.#lastOf(name, id, unit)
    if ('resume' in source) source.resume?.(this.#counts.of(name, this.#first ? logged : undefined))
    this.#parts.supervisor.add(source, opening)
  }

  #claim(source: string, ids: readonly string[]): void {
    const clashes = this.#ids.claim(source, ids)
    if (clashes.length === 0) return
    const owners = [...new Set(clashes.map(({ owner }) => owner))].join(', ')
    const said = clashes.slice(0, 32).map(({ id, proposed }) => `${id} is now ${proposed}`)
    this.#parts.logger.warn(
      `source ${source}: ${counted(clashes.length, 'sensor id')} in use by ${owners}: ${said.join(', ')}; ` +
        'older readings stay under the old id; give these sensors their own ids',
    )
  }

  /** The readings under their logged ids. */
  #named({ entry: { name } }: Running, readings: readonly SourceReading[]): readonly SourceReading[] {
    this.#claim(
      name,
      readings.map(([id]) => id),
    )
    if (!this.#ids.renames(name)) return readings
    return readings.map(([id, ...reading]) => [this.#ids.nameOf(name, id), ...reading] as const)
  }

  #take(running: Running, readings: readonly SourceReading[]): void {
    const { clock, logger } = this.#parts
    const { entry, band } = running
    running.failing = readings.some(([, , value]) => value === null)
      ? new Map(readings.flatMap(([id, , value]) => (value === null ? [[this.#ids.nameOf(entry.name, id), id]] : [])))
      : NONE
    const unknownSensors = running.seen ? [] : band.unknownSensors(readings)
    running.seen = true
    if (unknownSensors.length > 0) {
      const there = readings.slice(0, 32).map(([id]) => id)
      logger
        .child(entry.name)
        .warn(`deadband: no sensor is named ${unknownSensors.join(', ')}; there are ${there.join(', ')}`)
    }
    if (!band.passes(readings, clock.mono())) {
      this.#intake.counters.unchanged++
      return
    }
    try {
      this.#refused(running, this.#intake.submit(this.#named(running, readings)).rejected)
    } catch (thrown) {
      const error = asOsError(thrown)
      this.#intake.counters.refused_groups++
      const rejected = (error.details.rejected as readonly RejectedRow[] | undefined) ?? []
      this.#refused(running, rejected, error.message)
    }
  }

  /** Counts refused readings, logs the reason once, and keeps the link degraded while it lasts. */
  #refused(running: Running, rejected: readonly RejectedRow[], message = ''): void {
    const { logger, supervisor } = this.#parts
    const { name } = running.entry
    running.refused += rejected.length
    const reported = [...new Set(rejected.map(({ reason }) => reason))].join('; ') || message
    if (reported !== running.reported && reported !== '') logger.child(name).error(`refused: ${reported}`)
    running.reported = reported
    // without values, so that the text stays the same between samples: the values are in the log
    const why = [...new Set(rejected.map(({ code, reason }) => (code === 'UNKNOWN_UNIT' ? reason : code)))].join('; ')
    supervisor.get(name)?.complain('intake', why === '' ? '' : `readings refused: ${why}`)
  }
}
