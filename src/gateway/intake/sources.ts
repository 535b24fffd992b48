// Gives every configured source to the supervisor and its readings to the intake. A source that cannot be made (no such
// type, wrong options) is a link that is down with its reason; a group that the intake refuses is counted and told.
import { isDeepStrictEqual } from 'node:util'
import type { SourceConfig } from '../../config'
import { asOsError } from '../../lib/errors'
import { MissingLink } from '../../links/missing'
import { hostOf } from '../../links/network'
import { type Applied, compareLinks } from '../guard/apply'
import type { LinkParts } from '../parts'
import { Deadband } from './deadband'
import type { Intake } from './intake'
import { SourceOutputs } from './outputs'
import { listRunning, type SourceItem, type SourceTest, testRunning } from './test-source'

export type SourceEntry = Pick<SourceConfig, 'name' | 'type' | 'deadband'>

interface Running {
  readonly entry: SourceEntry
  readonly band: Deadband
  /** why sensors of it were refused in the last sample, told once */
  told: string
  /** its first sample was looked at */
  seen: boolean
}

/** what the driver sees of an entry */
const optionsOf = ({ deadband: _, ...rest }: SourceEntry): Omit<SourceEntry, 'deadband'> => rest

export class Sources {
  readonly #parts: LinkParts
  readonly #intake: Intake
  readonly #running = new Map<string, Running>()

  constructor(parts: LinkParts, intake: Intake) {
    this.#parts = parts
    this.#intake = intake
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

  /** Reads a source once, beside its schedule. Throws NOT_FOUND, LINK_DOWN, TIMEOUT. */
  test(name: string): Promise<SourceTest> {
    const { clock, config, supervisor } = this.#parts
    const dialect = config.config.engine_settings.unit_dialect
    return testRunning(this.#entries, supervisor, name, { clock, dialect })
  }

  /** what can be set through them */
  get outputs(): SourceOutputs {
    const { logger, supervisor } = this.#parts
    return new SourceOutputs(() => this.names, supervisor, logger)
  }

  get #entries(): SourceEntry[] {
    return [...this.#running.values()].map(({ entry }) => entry)
  }

  /**
   * Makes the running sources those of the list: what is gone or changed is closed, what is new is opened, the rest goes on
   * untouched. A source of which only the deadband changed stays open too. Never throws.
   */
  async apply(list: readonly SourceEntry[]): Promise<Applied> {
    const { supervisor } = this.#parts
    const known = new Map([...this.#running].map(([name, { entry }]) => [name, entry]))
    const applied = compareLinks(known, list)
    for (const name of [...applied.removed, ...applied.changed]) {
      const next = list.find(entry => entry.name === name)
      if (next && isDeepStrictEqual(optionsOf(next), optionsOf(known.get(name)!))) continue
      await supervisor.remove(name)
      this.#running.delete(name)
    }
    for (const entry of list) {
      if (applied.kept.includes(entry.name)) continue
      const open = this.#running.has(entry.name)
      this.#running.set(entry.name, { entry, band: new Deadband(entry.deadband ?? 0), told: '', seen: false })
      if (!open) await this.#add(entry)
    }
    return applied
  }

  async #add(entry: SourceEntry): Promise<void> {
    const { clock, config, logger, registry, supervisor } = this.#parts
    const { name, type, ...options } = optionsOf(entry)
    const optional = config.config.gateway.sources === null
    try {
      const driver = await registry.sourceDriver(type)
      supervisor.add(driver.create(name, options, { clock, logger: logger.child(name) }), {
        ...hostOf(options),
        optional,
      })
    } catch (error) {
      supervisor.add(new MissingLink(name, asOsError(error)))
    }
  }

  #take(running: Running, readings: Parameters<Intake['submit']>[0]): void {
    const { clock, logger } = this.#parts
    const { entry, band } = running
    const strangers = running.seen ? [] : band.strangers(readings)
    running.seen = true
    if (strangers.length > 0) {
      const there = readings.slice(0, 32).map(([id]) => id)
      logger
        .child(entry.name)
        .warn(`deadband: no sensor is named ${strangers.join(', ')}; there are ${there.join(', ')}`)
    }
    if (!band.passes(readings, clock.mono())) {
      this.#intake.counters.unchanged++
      return
    }
    try {
      const { rejected } = this.#intake.submit(readings)
      const told = rejected.map(({ reason }) => reason).join('; ')
      if (told !== running.told && told !== '') logger.child(entry.name).error(`refused: ${told}`)
      running.told = told
    } catch (error) {
      this.#intake.counters.refused_groups++
      logger.child(entry.name).error(asOsError(error).message)
    }
  }
}
