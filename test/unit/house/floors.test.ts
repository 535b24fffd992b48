// The import rule: a room imports only from lower floors, never upward, sideways or in cycles.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

const FLOORS: Record<string, number> = {
  // data about boards, no code
  board: 1,
  'src/lib': 1,
  'src/wire': 1,
  'src/units': 2,
  'src/backup': 2,
  'src/config': 2,
  'src/native': 2,
  'src/update': 2.5,
  'src/pipeline': 3,
  'src/cores': 4,
  'src/protocol': 4,
  'src/log': 4,
  'src/storage': 5,
  'src/links': 5,
  'src/media': 6,
  'src/node': 6,
  // what several drivers share
  'drivers/kit': 5.5,
  'drivers/serial': 5.5,
  'drivers/board': 5.5,
  drivers: 6,
  'src/checks': 6,
  'src/gateway': 7,
  'src/services': 8,
  'src/display': 8,
  'src/commands': 9,
  'src/web': 10,
  'src/tui': 10,
  'src/cli': 10,
  'src/arguments.ts': 10.5,
  'src/checked-exports.ts': 10.5,
  'src/main.ts': 11,
  'src/local-context.ts': 11,
  'src/start-gateway.ts': 11,
  'src/machine.ts': 11,
  'src/index.ts': 11,
}

/** The room of a project file: the folder of the table; each folder of drivers/ is a separate room. */
const room = (file: string): string => {
  const parts = file.split('/')
  if (parts[0] === 'board') return 'board'
  return parts[0] === 'drivers' ? `drivers/${parts[1]}` : parts.slice(0, 2).join('/')
}
const floor = (name: string): number | undefined =>
  FLOORS[name] ?? (name.startsWith('drivers/') ? FLOORS.drivers : undefined)

const files = ['src', 'drivers']
  .flatMap(dir => readdirSync(join(root, dir), { recursive: true }).map(f => `${dir}/${String(f)}`))
  .filter(f => /\.tsx?$/.test(f) && !f.endsWith('.d.ts'))

const importsOf = (file: string): string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(m => {
    const base = resolve(root, dirname(file), m[1]!)
    const hit = [`${base}.ts`, `${base}.tsx`, `${base}/index.ts`, base].find(existsSync)
    assert.ok(hit, `${file} imports ${m[1]}, which does not exist`)
    return relative(root, hit)
  })

test('every room has a floor', () => {
  assert.ok(files.length > 10)
  for (const file of files) assert.notEqual(floor(room(file)) ?? file.endsWith('.d.ts'), false, `${file} is in no room`)
})

test('a room imports only from lower floors', () => {
  const wrong: string[] = []
  for (const file of files) {
    const here = room(file)
    for (const target of importsOf(file)) {
      const there = room(target)
      if (there === here) continue
      const [a, b] = [floor(here), floor(there)]
      // the files that name concrete rooms are one composition
      if (floor(here) === 11 && floor(there) === 11) continue
      if (a === undefined || b === undefined || b >= a) wrong.push(`${file} (${a}) → ${target} (${b})`)
      if (here.startsWith('drivers/') && (b ?? 9) >= 6)
        wrong.push(`${file} → ${target}: drivers import floors 1–5 only`)
    }
  }
  assert.deepEqual(wrong, [])
})

test('there are no import cycles between files, types included', () => {
  // rooms cannot be in a cycle (above), so these are files of one room
  const graph = new Map(files.map(f => [f, importsOf(f).filter(t => /\.tsx?$/.test(t))]))
  const state = new Map<string, 'open' | 'done'>()
  const circle: string[] = []
  const visit = (file: string, path: string[]): void => {
    if (state.get(file) === 'done') return
    if (state.get(file) === 'open') {
      circle.push([...path.slice(path.indexOf(file)), file].join(' → '))
      return
    }
    state.set(file, 'open')
    for (const next of graph.get(file) ?? []) visit(next, [...path, file])
    state.set(file, 'done')
  }
  for (const file of files) visit(file, [])
  assert.deepEqual(circle, [])
})

test('docs/architecture.md lists each room with its floor and a sentence', () => {
  const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
  const told = new Map<string, number>()
  for (const [, at, rooms] of page.matchAll(/^\| ([\d.]+) \| (`[^|]+`) \| [^|]{10,} \|$/gm))
    for (const [, name] of rooms!.matchAll(/`([^`]+)`/g)) told.set(name!, Number(at))
  const folders = ['src', 'drivers'].flatMap(dir =>
    readdirSync(join(root, dir), { withFileTypes: true })
      .filter(entry => entry.isDirectory())
      .map(({ name }) => `${dir}/${name}`),
  )
  const expected = new Map(folders.map(name => [name, name === 'src/build' ? 0 : floor(name)]))
  for (const name of ['board', ...files.filter(file => file.split('/').length === 2)])
    if (floor(name) !== undefined) expected.set(name, floor(name))
  assert.deepEqual([...told].sort(), [...expected].sort())
})
