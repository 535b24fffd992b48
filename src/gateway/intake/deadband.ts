// Decides whether a group of a source is logged (decision 0025): always without a deadband; with one, if a value changed by at least
// that much since the last record, if a status changed, or if a minute has passed, so that a steady value differs from a
// silent source.
import type { SourceReading } from '../../links/contracts'

const AT_LEAST_MS = 60_000

export class Deadband {
  readonly #deadband: number | Readonly<Record<string, number>>
  #last: readonly SourceReading[] = []
  #at = Number.NEGATIVE_INFINITY

  /** `deadband` in the unit of the source: one for all sensors, or one per sensor id; 0 logs everything. */
  constructor(deadband: number | Readonly<Record<string, number>>) {
    this.#deadband = deadband
  }

  passes(rows: readonly SourceReading[], now: number): boolean {
    const pass = this.#deadband === 0 || now - this.#at >= AT_LEAST_MS || this.#moved(rows)
    if (pass) {
      this.#last = rows
      this.#at = now
    }
    return pass
  }

  /** Names in the deadband that are no sensor of the group: a misspelt name has no effect. */
  unknownSensors(rows: readonly SourceReading[]): string[] {
    const names = typeof this.#deadband === 'number' ? [] : Object.keys(this.#deadband)
    return names.filter(name => !rows.some(([id]) => id === name))
  }

  #of(id: string): number {
    return typeof this.#deadband === 'number' ? this.#deadband : (this.#deadband[id] ?? 0)
  }

  #moved(rows: readonly SourceReading[]): boolean {
    if (rows.length !== this.#last.length) return true
    return rows.some(([id, status, value], k) => {
      const [lastId, lastStatus, lastValue] = this.#last[k]!
      if (id !== lastId || status !== lastStatus || (value === null) !== (lastValue === null)) return true
      return value !== null && lastValue !== null && Math.abs(value - lastValue) >= this.#of(id)
    })
  }
}
