// References in comments, tests and pages can be opened: a mark (X29, R18) is explained in docs/, a decision and a page exist, the page has
// the named section, every file that a page names exists, and every decision is in its index.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../lib/gateway'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const below = (dir: string): string[] =>
  readdirSync(join(root, dir), { recursive: true, encoding: 'utf8' }).map(name => `${dir}/${name}`)

const CODE = /\.(tsx?|mjs|cjs|[ch]|css|html|service|conf)$/
const code = ['src', 'drivers', 'test', 'bench', 'board', 'rootfs'].flatMap(below).filter(name => CODE.test(name))
code.push('build.mjs', '.ci/run')
const pages = [
  ...below('docs').filter(name => name.endsWith('.md')),
  ...readdirSync(root).filter(name => name.endsWith('.md')),
]

/** The names of all files of the project's code. */
const names = new Set(code.map(name => basename(name)))

/** Of the decisions. */
const numbers = new Set(readdirSync(join(root, 'docs/decisions')).map(name => name.slice(0, 4)))

/** Marks with the page that explains them. */
const MARKS: readonly [page: string, row: RegExp][] = [
  ['docs/promises.md', /(?:^\| | )([RSP]\d{1,2})(?: \||: )/gm],
  ['docs/protocol.md', /^\| (X\d{1,2}) \|/gm],
]
const known = new Set(MARKS.flatMap(([page, row]) => [...read(page).matchAll(row)].map(match => match[1]!)))

const MARK = /\b[XRSP]\d{1,2}\b/g
/** Text that looks like a mark and is none: a constant, and the name of a terminal of a board. */
const NO_MARK: Record<string, readonly string[]> = { 'src/wire/base62.ts': ['P5'], 'docs/wiring.md': ['S0'] }

/** The parts of a source where a mark may be: comments, `(X29)` in a text, and the beginning of a test's name. */
const remarks = (text: string): string[] => [
  ...[...text.matchAll(/(?:^|[\s{(])\/\/.*|\/\*[\s\S]*?\*\//gm)].map(match => match[0]),
  ...[...text.matchAll(/\((?:[XRSP]\d{1,2})(?:, [XRSP]\d{1,2})*\)/g)].map(match => match[0]),
  ...[...text.matchAll(/\btest\(\s*['"`]([XRSP]\d{1,2}(?:, [XRSP]\d{1,2})*): /g)].map(match => match[1]!),
]
/** A page without its examples and quoted names. */
const prose = (text: string): string => text.replace(/^(```|~~~)[\s\S]*?^\1|^ {4}.*$|`[^`\n]*`/gm, '')

test('every mark in sources, tests and pages is explained in docs/', () => {
  const wrong: string[] = []
  for (const file of [...code, ...pages]) {
    const text = read(file)
    for (const part of file.endsWith('.md') ? [prose(text)] : remarks(text))
      for (const [mark] of part.matchAll(MARK))
        if (!known.has(mark) && !NO_MARK[file]?.includes(mark)) wrong.push(`${file}: ${mark}`)
  }
  assert.ok(known.size > 90 && code.length > 800, `${known.size} marks, ${code.length} files`)
  assert.deepEqual(wrong, [])
})

/** The anchors that GitHub makes from a page's headings. */
const anchorsOf = (text: string): Set<string> =>
  new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(match =>
      match[1]!
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )

test('a reference names a page of the project, an existing section, and an existing file', () => {
  const wrong: string[] = []
  for (const file of [...code, ...pages]) {
    const text = read(file)
    const say = (what: string) => wrong.push(`${file}: ${what}`)
    for (const [hit] of text.matchAll(
      /\b(?:PROTOCOL|DESIGN|QUALITY|PLATFORM|SIMULATION|STYLE)(?:\.md|,? (?:§|\d|[XRSP]\d|Appendix))/g,
    ))
      say(`${hit} is no page of the project`)
    for (const [, path, section, heading] of text.matchAll(
      /(?<![\w/.-])(docs\/[\w./-]*\w)(?:,? section (\d+)|,? "([^"\n]+)")?/g,
    )) {
      if (!existsSync(join(root, path!))) say(`${path} does not exist`)
      else if (section && !read(path!).includes(`\n## ${section}. `)) say(`${path} has no section ${section}`)
      else if (
        heading &&
        !read(path!)
          .match(/^#+ .*$/gm)!
          .some(line => line.includes(heading))
      )
        say(`${path} has no section "${heading}"`)
    }
    for (const [decisions] of text.matchAll(/\bdecisions? \d{4}(?:(?:, | and )\d{4})*/g))
      for (const [number] of decisions.matchAll(/\d{4}/g))
        if (!numbers.has(number)) say(`there is no decision ${number}`)
    if (!file.endsWith('.md')) continue
    for (const [, path, anchor] of text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)) {
      const target = path ? join(dirname(file), path) : file
      if (!existsSync(join(root, target))) say(`links to ${path}, which does not exist`)
      else if (anchor && !anchorsOf(read(target)).has(anchor))
        say(`links to ${path}#${anchor}, which has no such heading`)
    }
    if (file !== 'CHANGELOG.md')
      for (const [, name] of text.matchAll(/`([a-z][\w.-]*\.(?:tsx?|mjs|cjs))`/g))
        if (!names.has(name!)) say(`names ${name}, and no file is called so`)
    // patterns such as values*.test.ts are left out; the history of changes names files as they were
    for (const [, path] of file === 'CHANGELOG.md'
      ? []
      : text.matchAll(/(?<![\w/.*<-])((?:src|drivers|test|bench|board|rootfs)\/[\w./-]*\w)(?![*\w])/g))
      if (!existsSync(join(root, path!))) say(`names ${path}, which does not exist`)
  }
  assert.deepEqual(wrong, [])
})

test('every decision has a line in the index, its three parts and at most 60 lines', () => {
  const dir = 'docs/decisions'
  const index = read(`${dir}/README.md`)
  const files = readdirSync(join(root, dir)).filter(name => name !== 'README.md')
  const lines = [...index.matchAll(/^- \[(\d{4})\]\((\S+)\) ([^:\n]+): .+\.$/gm)]
  assert.deepEqual(
    lines.map(([, , name]) => name),
    files.sort(),
  )
  lines.forEach(([, number, name, title], at) => {
    const text = read(`${dir}/${name}`)
    assert.match(name!, new RegExp(`^${number}-[a-z0-9-]+\\.md$`))
    assert.equal(Number(number), at + 1)
    assert.deepEqual(text.match(/^#+ .*$/gm), [`# ${title}`, '## Context', '## Decision', '## Consequences'], name)
    assert.ok(text.split('\n').length <= 60, `${name} is too long`)
  })
})
