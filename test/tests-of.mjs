// The tests of one source file, for `node test/run.mjs --of FILE`: those with its name, and those that import it; without either, those that import
// what imports it, and so on. Types do not count: a test of a type is the compiler's.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const IMPORT =
  /(?:^|\n)(import|export)\s+(?!type\b)([\w$*{][^'";=]*?)\bfrom\s*'(\.[^']+)'|(?:\bimport\s*\(?|\brequire\()\s*'(\.[^']+)'|'((?:\w[\w-]*\/)*[\w.-]+\.(?:mjs|tsx?))'/g
const IS_CODE = /\.(tsx?|mjs)$/
const isTest = file => file.endsWith('.test.ts')

const codeBelow = (root, dir) =>
  readdirSync(join(root, dir), { recursive: true })
    .map(name => join(dir, String(name)))
    .filter(name => IS_CODE.test(name) && !name.endsWith('.d.ts'))

/** The names in `{ a, type B, c as d }`, each as it is called in the other file; undefined: all of it. */
const namesOf = clause =>
  /\{([^}]*)\}/
    .exec(clause)?.[1]
    .split(',')
    .map(one => one.trim().split(/\s+as\s+/)[0])
    .filter(one => one && !one.startsWith('type '))

/** What `file` imports, runs (the path of a program in quotes) or passes on, each with its names; undefined for all of them. */
function importsOf(root, file) {
  const found = []
  for (const match of readFileSync(join(root, file), 'utf8').matchAll(IMPORT)) {
    const [, verb, clause, from, whole, program] = match
    // a test names other sources only to read them
    if (program && isTest(file) && !program.endsWith('.mjs')) continue
    const base = program ? join(root, program) : join(root, dirname(file), from ?? whole)
    const paths = [base, `${base}.ts`, `${base}.tsx`, join(base, 'index.ts')]
    const hit = paths.find(path => IS_CODE.test(path) && existsSync(path))
    const names = clause && namesOf(clause)
    if (hit && names?.length !== 0) found.push({ file: relative(root, hit), names, passedOn: verb === 'export' })
  }
  return found
}

/** file → the files that import something of it, also by way of a file that only passes it on. */
function importersOf(imports) {
  const importers = new Map()
  const enter = (from, { file: to, names }) => {
    const passedOn = (imports.get(to) ?? []).filter(one => one.passedOn && one.names)
    const origin = name => passedOn.find(one => one.names.includes(name))
    for (const name of names ?? []) if (origin(name)) enter(from, { file: origin(name).file, names: [name] })
    if (names?.every(origin)) return
    if (!importers.has(to)) importers.set(to, new Set())
    importers.get(to).add(from)
  }
  for (const [from, list] of imports) for (const one of list) if (!one.passedOn || !one.names) enter(from, one)
  return importers
}

/** The name of a test says what it tests: the file, or, as that of its index file, its folder, alone or with `-<aspect>`. */
function isNamedAfter(test, source) {
  const place = source
    .replace(/^src\//, '')
    .replace(/(\.\w+)?\.\w+$/, '')
    .replace(/([^/]+)\/index$/, '$1/$1')
  const name = test.replace(/^test\/unit\//, '').replace(/(\.long)?\.test\.ts$/, '')
  return name === place || name.startsWith(`${place}-`)
}

/**
 * Reads the code below `root` once. The result takes the path of a source file from `root` and returns paths of tests: `named` after it,
 * `importing` it, and `through`: the files by which those reach it, empty if they import it themselves. Of a file of types: the tests of its folder.
 */
export function testFinder(root) {
  const all = ['src', 'drivers', 'test'].flatMap(dir => codeBelow(root, dir)).concat('build.mjs')
  const importers = importersOf(new Map(all.map(one => [one, importsOf(root, one)])))
  return file => {
    const named = all.filter(one => isTest(one) && isNamedAfter(one, file))
    // the tests of the page load it in a browser
    if (file.startsWith('src/web/page/'))
      return { named, importing: all.filter(one => isTest(one) && one.startsWith('test/browser/')), through: [] }
    const seen = new Set([file])
    for (let step = [file], through = []; step.length > 0; through = step) {
      step = [...new Set(step.flatMap(one => [...(importers.get(one) ?? [])]))].filter(one => !seen.has(one))
      const importing = step.filter(isTest)
      if (importing.length > 0 || named.length > 0) return { named, importing, through }
      for (const one of step) seen.add(one)
    }
    // types, and what only passes names on
    let place = join('test/unit', dirname(file).replace(/^src/, ''))
    const below = () => all.filter(one => isTest(one) && one.startsWith(`${place}/`))
    while (below().length === 0) place = dirname(place)
    return { named, importing: below(), through: [] }
  }
}

/** The tests of the source file at `path`, below test/; undefined if it is none. */
export function testsOf(root, path) {
  const file = relative(root, resolve(path))
  if (!/^(src|drivers)\//.test(file) || !existsSync(join(root, file))) return undefined
  const { named, importing } = testFinder(root)(file)
  return [...new Set([...named, ...importing])].map(test => relative('test', test))
}
