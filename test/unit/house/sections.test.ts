// Outputs show what is registered: only the file of the built-in sections may list them.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { coreSections } from '../../../src/display/sections'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** The files that name the built-in sections: their providers, what each shows, and how its text reads. */
const NAMES_THEM = new Set([
  'display/sections.ts',
  'display/core-text.ts',
  'display/node-source.ts',
  'display/gateway-source.ts',
])

test('the list of sections is in one file', () => {
  const ids = coreSections().map(({ section_id }) => section_id)
  assert.deepEqual([...ids].sort(), ['config', 'db', 'identity', 'pipeline', 'plugins', 'transport'])
  const files = readdirSync(join(root, 'src'), { recursive: true })
    .map(file => String(file).replaceAll('\\', '/'))
    .filter(file => /\.tsx?$/.test(file) && !NAMES_THEM.has(file))
  assert.ok(files.length > 100)
  for (const file of files) {
    const text = readFileSync(join(root, 'src', file), 'utf8')
    // four of six near each other, as keys or as texts, are a list
    for (let from = 0; from < text.length; from += 400) {
      const part = text.slice(from, from + 800)
      const named = ids.filter(id => new RegExp(`['"\`]${id}['"\`]|^\\s*${id}: \\(\\) =>`, 'm').test(part))
      assert.ok(named.length < 4, `${file} lists sections: ${named.join(', ')}`)
    }
  }
})
