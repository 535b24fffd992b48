// How the tables of this folder are run. A row is one item of the specification, and a call that observes it. A row named in
// pending.json must fail: one that works has to be removed from the list.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../lib/gateway'

export interface Row {
  /** the specification's name of it */
  readonly name: string
  /** the entry of pending.json that excuses it, if it has another name */
  readonly pending?: string
  /** throws when it is not as the specification says */
  observe(): unknown
}

export interface Table {
  readonly title: string
  readonly rows: readonly Row[]
}

export const pending = JSON.parse(readFileSync(join(root, 'test/spec/pending.json'), 'utf8')) as readonly string[]

const entryOf = ({ name, pending: entry = name }: Row): string => entry

/** Fails, or is excused. */
export async function judge(row: Row, excused: readonly string[] = pending): Promise<void> {
  if (!excused.includes(entryOf(row))) {
    await row.observe()
    return
  }
  const works = await Promise.resolve()
    .then(() => row.observe())
    .then(
      () => true,
      () => false, // as pending.json says
    )
  assert.ok(!works, `${row.name} works: take ${JSON.stringify(entryOf(row))} out of test/spec/pending.json`)
}

/** One test per table, one step per row. */
export function run(tables: readonly Table[]): void {
  for (const { title, rows } of tables)
    test(title, async t => {
      const names = rows.map(({ name }) => name)
      assert.equal(new Set(names).size, names.length, 'every row has a name of its own')
      for (const row of rows) await t.test(row.name, () => judge(row))
    })
}

/** The entries of pending.json for rows of these tables. */
export const excusedBy = (tables: readonly Table[]): string[] => tables.flatMap(({ rows }) => rows.map(entryOf))
