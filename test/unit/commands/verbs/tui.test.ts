// The verbs of the terminal UI: what they read, print and refuse.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CommandContext, findVerb, parseCommand, runRequest, VERBS } from '../../../../src/commands'
import { DisplayProvider, DisplayRegistry, RegistryReader } from '../../../../src/display'
import type { OsError } from '../../../../src/lib/errors'

class Rows extends DisplayProvider {
  extractData(): object {
    return [
      { bed: 'north', wet: 18 },
      { bed: 'south', wet: 40 },
    ]
  }
}

class Dict extends DisplayProvider {
  extractData(): object {
    return { state: 'up', parts: { a: 1 } }
  }
}

function context(calls: unknown[] = []): CommandContext {
  const registry = new DisplayRegistry()
  const rows = new Rows('garden', 'beds', 'Beds')
  rows.category = 'garden'
  rows.priority = 80
  registry.register(rows)
  registry.register(new Dict('node_core', 'identity', 'Identity'))
  return {
    via: 'local',
    display: async () => new RegistryReader(registry),
    terminalUi: async () => ({
      runInteractive: async (...args: unknown[]) => calls.push(['interactive', ...args]) && 0,
      runBios: async (...args: unknown[]) => calls.push(['bios', ...args]) && 3,
    }),
  } as unknown as CommandContext
}

const same = (text: string): string => text
const paint = { bold: same, dim: same, good: same, bad: same, warn: same }

async function print(line: string, within = context()): Promise<{ text: string; exitCode: number }> {
  const { verb, options } = parseCommand(VERBS, line.split(' '))
  const none = async (): Promise<string> => ''
  const prepared = verb.prepare ? await verb.prepare(options, none, none, () => undefined) : options
  const { value = {}, exitCode = 0 } = await verb.run(within, prepared)
  return { text: verb.text?.(value, paint) ?? '', exitCode }
}

test('render prints all sections or the named ones: as text, as JSON for scripts, and in each format', async () => {
  const before = Date.now() / 1000
  const json = async (line: string): Promise<Record<string, unknown>> => {
    const { verb, options } = parseCommand(VERBS, line.split(' '))
    return (await verb.run(context(), options)).value as Record<string, unknown>
  }
  const all = await json('tui render')
  assert.deepEqual(Object.keys(all), ['garden:beds', 'identity', 'timestamp'])
  const at = Number(all.timestamp)
  assert.ok(at > before - 2 && at < Date.now() / 1000 + 2, `${at}`)
  assert.deepEqual(Object.keys(await json('tui render --section identity')), ['identity', 'timestamp'])
  assert.equal(
    (await print('tui render')).text,
    'garden:beds\nbed    wet\nnorth  18\nsouth  40\n\nidentity\nstate  up\nparts:\n  a  1',
  )
  assert.deepEqual(Object.keys(JSON.parse((await print('tui render identity --format json')).text)), [
    'identity',
    'timestamp',
  ])
  assert.deepEqual(
    (await print('tui render garden:beds --format table')).text,
    'garden:beds\nbed    wet\nnorth  18\nsouth  40',
  )
  assert.deepEqual(
    (await print('tui render identity,garden:beds --format TEXT')).text,
    'identity\nstate  up\nparts:\n  a  1\n\ngarden:beds\nbed    wet\nnorth  18\nsouth  40',
  )
  assert.deepEqual(
    (await print('tui render identity --format tree')).text,
    'identity\n├─ state: up\n└─ parts\n   └─ a: 1',
  )
  assert.match((await print('tui render identity --format html')).text, /^identity\n<table/)
})

test('render of a section that does not exist is exit 1; an unknown format is wrong usage', async () => {
  const missing = await print('tui render garden:trees')
  assert.equal(missing.exitCode, 1)
  assert.match(missing.text, /^garden:trees\nerror +section not found/)
  await assert.rejects(print('tui render --format pdf'), (error: unknown) => (error as OsError).code === 'BAD_REQUEST')
})

test('sections are listed in order, filtered by category and minimum priority', async () => {
  assert.match((await print('tui sections')).text, /^section +title[\s\S]*garden:beds[\s\S]*identity/)
  assert.doesNotMatch((await print('tui sections --category garden')).text, /identity/)
  assert.doesNotMatch((await print('tui sections --min-priority 60')).text, /identity/)
  assert.equal((await print('tui sections --category none')).text, 'no section')
})

test('the live views get interval and sections, and exit with the code of the command', async () => {
  const calls: unknown[] = []
  const within = context(calls)
  await print('tui', within)
  await print('tui --section garden:beds,identity --interval 0.5', within)
  assert.equal((await print('tui bios --section identity', within)).exitCode, 3)
  assert.deepEqual(calls, [
    ['interactive', undefined, null],
    ['interactive', 0.5, ['garden:beds', 'identity']],
    ['bios', undefined, 'identity'],
  ])
  assert.throws(() => parseCommand(VERBS, ['tui', '--interval', '0']), /interval must be/)
})

test('both spellings of a command name the same verb', () => {
  for (const mode of ['render', 'interactive', 'bios', 'sections'])
    for (const argv of [
      ['tui', mode, '--json'],
      ['tui', '--cmd', mode, '--', '--json'],
      ['tui', '--cmd', mode, '--json'],
    ]) {
      const { verb, args } = findVerb(VERBS, argv)
      assert.equal(verb.name, `tui ${mode}`)
      assert.deepEqual(args, ['--json'])
    }
  assert.equal(findVerb(VERBS, ['tui', '--cmd', 'nothing']).verb.name, 'tui interactive')
})

test('inside a gateway only non-live views run', async () => {
  const answer = await runRequest(context(), { id: 1, command: 'tui sections' })
  assert.equal((answer.result as { sections: unknown[] }).sections.length, 2)
  for (const command of ['tui interactive', 'tui bios'])
    await assert.rejects(
      runRequest(context(), { id: 1, command }),
      (error: unknown) => (error as OsError).code === 'USAGE',
    )
})
