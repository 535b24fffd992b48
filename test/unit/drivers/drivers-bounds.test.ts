// The options of every medium and source as users have them in their Config.json: default, minimum and maximum of each
// number, and the defaults of the others. A changed line changes the meaning of existing files; OS_NODE_WRITE_BOUNDS=1
// rewrites bounds.txt, and its diff shows what changed.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { rows } from '../../../src/config/describe'
import { assemble } from '../../../src/config/schema'
import { fragments, mediaTable, sourceTable } from '../../../src/index'
import { root } from '../../lib/gateway'

interface Schema {
  readonly type: string
  readonly kind: string
  readonly requirement?: unknown
  readonly default?: unknown
  readonly wrapped?: Schema
  readonly item?: Schema
  readonly value?: Schema
  readonly pipe?: readonly Schema[]
  readonly options?: readonly (Schema | string)[]
  readonly entries?: Readonly<Record<string, Schema>>
}

/** Every option of the schema as one line: its path, its default, the rules with a number. */
function linesOf(schema: Schema, path: string, standard?: unknown): string[] {
  if (schema.wrapped) return linesOf(schema.wrapped, path, schema.default ?? standard)
  const lines: string[] = []
  const parts = schema.pipe ?? [schema]
  const rules = parts.flatMap(({ kind, type, requirement }) =>
    kind === 'validation' && typeof requirement === 'number' ? [`${type} ${requirement}`] : [],
  )
  const said = [
    ...(standard === undefined || typeof standard === 'function' ? [] : [JSON.stringify(standard)]),
    ...rules,
  ]
  if (said.length > 0) lines.push(`${path}: ${said.join(', ')}`)
  for (const part of parts) {
    for (const [key, entry] of Object.entries(part.entries ?? {})) lines.push(...linesOf(entry, `${path}.${key}`))
    if (part.item) lines.push(...linesOf(part.item, `${path}[]`))
    if (part.value?.type) lines.push(...linesOf(part.value, `${path}.*`))
    for (const [k, option] of (part.options ?? []).entries())
      if (typeof option === 'object') lines.push(...linesOf(option, `${path}|${k}`))
    if (part !== schema && part.pipe) lines.push(...linesOf(part, path))
  }
  return lines
}

test('defaults and limits of all options are those of bounds.txt', async () => {
  const drivers = { ...mediaTable, ...sourceTable } as Record<string, () => Promise<{ schema?: unknown }>>
  const lines: string[] = []
  for (const name of Object.keys(drivers).sort()) {
    const { schema } = await drivers[name]!()
    if (schema) lines.push(...linesOf(schema as Schema, name))
  }
  const file = join(root, 'test/unit/drivers/bounds.txt')
  if (process.env.OS_NODE_WRITE_BOUNDS) writeFileSync(file, `${lines.join('\n')}\n`)
  assert.deepEqual(lines, readFileSync(file, 'utf8').trim().split('\n'))
})

test('the help of interval_ms has the minimum of each source', () => {
  const row = rows(assemble(fragments())).find(({ key }) => key === 'gateway.sources[].interval_ms')!
  const bounds = readFileSync(join(root, 'test/unit/drivers/bounds.txt'), 'utf8')
  const least = [...bounds.matchAll(/^(\w+)\.interval_ms: \d+, min_value (\d+)/gm)].map(([, type, ms]) => [type!, ms!])
  assert.equal(row.min, Math.min(...least.map(([, ms]) => Number(ms))))
  const buses = ['ads1115', 'bme280', 'ds3231', 'ina219', 'sht3x', 'modbus_rtu', 'modbus_tcp', 'line']
  const said = (type: string): string =>
    (buses.includes(type) ? / line: from (\d+)/ : new RegExp(`${type}[^:;]*: from (\\d+)`)).exec(row.help)?.[1] ??
    /others: from (\d+)/.exec(row.help)![1]!
  for (const [type, ms] of least) assert.equal(said(type!), ms, type)
})
