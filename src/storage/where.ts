// The WHERE part of a query. Text of a caller never becomes SQL text (S10).

import { whole } from './shapes'
import type { SqlValue } from './sql-api'

/** Conditions whose values are always bound, never written into the text (S10). */
export class Where {
  readonly values: SqlValue[] = []
  readonly #parts: string[] = []

  get sql(): string {
    return this.#parts.length > 0 ? ` WHERE ${this.#parts.join(' AND ')}` : ''
  }

  equal(column: string, value: string | null | undefined): void {
    if (value === undefined || value === null) return
    this.#parts.push(`${column} = ?`)
    this.values.push(String(value))
  }

  range(column: string, since: number | null | undefined, until: number | null | undefined): void {
    if (since !== undefined && since !== null) this.#bound(`${column} >= ?`, whole('since', since))
    if (until !== undefined && until !== null) this.#bound(`${column} <= ?`, whole('until', until))
  }

  #bound(part: string, value: number): void {
    this.#parts.push(part)
    this.values.push(value)
  }
}
