// The program accepts every configuration of our pages: each is read like a Config.json, and each of its links is checked by its
// driver.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { defaults } from '../../../src/config/default-text'
import { checkLinks } from '../../../src/gateway/guard/check-links'
import { fragments, mediaTable, sourceTable } from '../../../src/index'
import { createLogger } from '../../../src/lib/logger'
import { Registry } from '../../../src/links/registry'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const dir = mkdtempSync(join(tmpdir(), 'os-node-examples-'))
after(() => rmSync(dir, { recursive: true, force: true }))
const registry = new Registry({ media: mediaTable, sources: sourceTable })

const JSON_BLOCK = /^```json\n(.*?)^```$/gms
const examplesOf = (text: string) =>
  text
    .split(/^#+ /m)
    .flatMap(part => [...part.matchAll(JSON_BLOCK)].map(([, json]) => [part.split('\n', 1)[0]!, json!] as const))

const page = readFileSync(join(root, 'docs/wiring.md'), 'utf8')
const sections = page.split(/^## /m).slice(1)
const examples = sections.flatMap(text =>
  [...text.matchAll(JSON_BLOCK)].map(([, json]) => [text.split('\n', 1)[0]!, json!] as const),
)
const pages = [
  ...readdirSync(root),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map(name => `docs/${name}`),
]
  .filter(name => name.endsWith('.md'))
  .map(name => [name, readFileSync(join(root, name), 'utf8')] as const)

test('every bus on the wiring page has an example configuration', () => {
  const titles = new Set(examples.map(([title]) => title))
  assert.ok(titles.size >= 14, [...titles].join(', '))
  for (const title of titles)
    assert.ok(
      examples.some(([of, json]) => of === title && json),
      title,
    )
})

test('every bus on the wiring page has a test command and an explanation of its errors', () => {
  for (const text of sections) {
    const title = text.split('\n', 1)[0]
    assert.match(text, /^(Test\b|### (Test|Try it))|[.)] Test: |How to test it/m, title)
    assert.match(text, /\b(error|says|message)|what it says/i, title)
  }
})

test('the system files that the page names are those that its command copies', () => {
  const [, from] = /^sudo cp -r (\S+) \/(?:\s+#.*)?$/m.exec(page)!
  const brings = (path: string): boolean => existsSync(join(root, from!, path))
  const named = [...page.matchAll(/(\/etc\/os-node\/\w+\.conf)|(os-node-\w+@)\w/g)]
  assert.ok(named.length >= 2)
  for (const [, path, unit] of named) assert.ok(brings(path ?? `usr/lib/systemd/system/${unit}.service`), path ?? unit)
  const units = readdirSync(join(root, from!, 'usr/lib/systemd/system'))
  for (const unit of units) {
    const text = readFileSync(join(root, from!, 'usr/lib/systemd/system', unit), 'utf8')
    const [, starts] = /^ExecStart=(\S+)/m.exec(text) ?? []
    assert.equal(starts === undefined, unit.endsWith('.socket'), unit)
    // compiled by the build, for the Debian package
    if (starts && !/^\/usr\/lib\/os-node\/(hci-open|hold-lines)$/.test(starts))
      assert.ok(statSync(join(root, from!, starts)).mode & 0o100, `${starts} cannot be run`)
  }
})

test('every JSON example of the pages is a json block that can be copied', () => {
  const indented = pages.flatMap(([name, text]) =>
    [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/\n\n {4}([{"].*)/g)].map(([, line]) => `${name}: ${line}`),
  )
  assert.deepEqual(indented, [])
})

for (const [name, title, json] of pages.flatMap(([name, text]) =>
  examplesOf(text).map(([title, json]) => [name, title, json] as const),
)) {
  const names = [...json.matchAll(/"name": "([a-z-]+)"/g)].map(([, of]) => of)
  test(`${name}, ${title}: the example ${names.join(', ')} is accepted, link by link`, async () => {
    const value = JSON.parse(json) as { type?: string }
    const whole = value.type ? { gateway: { sources: [value] } } : value
    const path = join(dir, 'Config.json')
    writeFileSync(path, JSON.stringify(whole))
    const logger = createLogger({ write: () => undefined })
    const store = ConfigStore.load({
      ...{ path, env: {}, dataDir: dir, logger, keep: false },
      fragments: fragments(),
    })
    assert.deepEqual(store.warnings, [])
    const { sources, uplinks, receivers } = store.config.gateway
    if (name === 'docs/wiring.md') assert.ok([sources, uplinks, receivers].some(list => (list ?? []).length > 0))
    await checkLinks(defaults(), store.config, registry)
  })
}
