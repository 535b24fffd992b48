// Comments, texts, docs and names of tests use the field's words: those that name no subject, and names of things that have a technical one,
// are refused.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** each word, what to write instead, and the files it is refused in if not in all */
const REFUSED: readonly (readonly [word: RegExp, instead: string, files?: RegExp])[] = [
  [/\b(?:nobody|somebody|anybody|whoever)\b/i, 'the subject: the caller, the sender, the user, no peer'],
  // not an option of sfdisk
  [/\b(?:told|(?<!-)tells?|telling)\b/i, 'logged, reported, called, sent'],
  [/\basked\b/i, 'requested, queried'],
  [/\bvouch\w*/i, 'time source, confirm'],
  [/\bpatience\b/i, 'timeout, backoff'],
  [/\bclothes\b/i, 'form'],
  [/\bbattery clock\b/i, 'RTC'],
  [/\bsteady clock\b/i, 'monotonic clock'],
  [/\bpauses?\b/i, 'delay, backoff, interval, yield', /^(?:src\/(?:lib|links|node)|docs\/decisions)\//],
  [/\bgiven\b/i, 'passed in, explicit, assigned, or the name of the option'],
  [/\bstands?\b/i, 'is, is stopped, replaces, substitute'],
  [/\b(?:the|its|their) rest\b/i, 'the others, the remaining, remainder'],
  [/\bways\b/i, 'directions, forms, modes'],
  // not the HTTP header
  [/(?<!-)\bopeners?\b/i, 'client, caller of open()'],
]

/** Parts of names for which a standard word exists, and what to write instead. */
const NAMES: Readonly<Record<string, string>> = {
  given: 'options, input, value, key',
  rest: 'others, remaining, tail, suffix',
  pause: 'delay, interval, backoff, sleep',
  aside: 'oversized, quarantined',
  told: 'reported, sent',
  asked: 'requested',
  patience: 'timeout',
}
/** names of configuration fields, of JSON formats, of tables, of valibot and of streams */
const KEPT = new Set(['asked_by', 'pause_ms', 'given_up', 'aside?', 'aside:', 'rest?', 'pause('])

const partsOf = (name: string): string[] => name.split(/_|(?<=[a-z0-9])(?=[A-Z])/).map(part => part.toLowerCase())

const comments = (line: string): string =>
  /^\s*(?:\/\/|\/?\*)(.*)$/.exec(line)?.[1] ?? /\s\/\/\s(.*)$/.exec(line)?.[1] ?? ''

const QUOTED = /'[^']*'|`[^`]*`|"[^"]*"/g

/** The quoted text on a line. */
const texts = (line: string): string => (line.match(QUOTED) ?? []).join(' ')

const LIKELY = new RegExp(Object.keys(NAMES).join('|'), 'i')
const COMMENT_LINE = /^\s*(?:\/\/|\/?\*)/

/** The refused names on a line of code; properties that are only read are checked where they are declared. */
function misnamed(line: string): [name: string, instead: string][] {
  if (!LIKELY.test(line) || COMMENT_LINE.test(line)) return []
  const code = line
    .replace(QUOTED, "''")
    .replace(/>[^<>{}=]*<\//g, '></')
    .replace(/\s\/\/\s.*$/, '')
  return [...code.matchAll(/(?<![.\w$])([A-Za-z_$][\w$]*)[?:(]?/g)].flatMap(([sign, name = '']) => {
    const part = KEPT.has(sign) || KEPT.has(name) ? undefined : partsOf(name).find(part => Object.hasOwn(NAMES, part))
    return part === undefined ? [] : [[name, NAMES[part]!] as [string, string]]
  })
}

/** The refused words in a text of the file, and what to write instead. */
const refused = (text: string, file: string): string[] =>
  REFUSED.flatMap(([word, instead, files]) => {
    if (files && !files.test(file)) return []
    const [found] = word.exec(text) ?? []
    return found === undefined ? [] : [`${found} → ${instead}`]
  })

/** The names of the tests in a file. */
const testNames = (text: string): string[] =>
  [...text.matchAll(/\b(?:test|describe)\(\s*('[^']*'|`[^`]*`|"[^"]*")/g)].map(([, name]) => name!)

/** Every line of docs and of files without code, with where it is. */
function* prose(): Generator<[at: string, line: string]> {
  const within = (folder: string): string[] =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile() && !/\.(?:png|svg|mjs|dtbo)$/.test(entry.name))
      .map(({ parentPath, name }) => relative(root, join(parentPath, name)))
  const pages = readdirSync(root).filter(name => name.endsWith('.md') && name !== 'CHANGELOG.md')
  for (const file of [...pages, ...['docs', 'rootfs', 'board', 'src/build/image'].flatMap(within)])
    for (const [at, line] of readFileSync(join(root, file), 'utf8').split('\n').entries())
      yield [`${file}:${at + 1}`, line]
}

test('comments, texts and names use the words of the field', () => {
  const wrong: string[] = []
  let lines = 0
  for (const folder of ['src', 'drivers'])
    for (const name of readdirSync(join(root, folder), { recursive: true }).map(String)) {
      if (!/\.(?:tsx?|mjs|cjs|c|h)$/.test(name)) continue
      for (const [at, line] of readFileSync(join(root, folder, name), 'utf8')
        .split('\n')
        .entries()) {
        const comment = comments(line)
        if (comment !== '') lines++
        for (const found of refused(`${comment} ${texts(line)}`, `${folder}/${name}`))
          wrong.push(`${folder}/${name}:${at + 1}: ${found}`)
        if (/\.tsx?$/.test(name))
          for (const [word, instead] of misnamed(line)) wrong.push(`${folder}/${name}:${at + 1}: ${word} → ${instead}`)
      }
    }
  assert.ok(lines > 9000, `${lines}`)
  let names = 0
  for (const folder of ['test', 'bench'])
    for (const name of readdirSync(join(root, folder), { recursive: true }).map(String)) {
      if (!/\.(?:tsx?|mjs|cjs|c|h)$/.test(name) || name === 'unit/house/words.test.ts') continue
      const text = readFileSync(join(root, folder, name), 'utf8')
      for (const [at, line] of text.split('\n').entries())
        for (const found of refused(comments(line), `${folder}/${name}`))
          wrong.push(`${folder}/${name}:${at + 1}: ${found}`)
      for (const title of testNames(text)) {
        names++
        for (const found of refused(title, `${folder}/${name}`)) wrong.push(`${folder}/${name}: ${title}: ${found}`)
      }
    }
  assert.ok(names > 2000, `${names}`)
  let read = 0
  for (const [at, line] of prose()) {
    read++
    for (const found of refused(line, at)) wrong.push(`${at}: ${found}`)
  }
  assert.ok(read > 5000, `${read}`)
  assert.deepEqual(wrong, [])
  assert.equal(comments('  const told = 1 // told once'), 'told once')
  assert.deepEqual(
    misnamed("const restMs = core.rest + 'given' // aside").map(([name]) => name),
    ['restMs'],
  )
})
