// Comments and texts use the field's words: those that name no subject, and names of things that have a technical one, are
// refused.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** each word, and what to write instead */
const REFUSED: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\b(?:nobody|somebody|whoever)\b/i, 'the subject: the caller, the sender, the user, no peer'],
  [/\btold\b/i, 'logged, reported, called, sent'],
  [/\bvouch\w*/i, 'time source, confirm'],
  [/\bpatience\b/i, 'timeout, backoff'],
  [/\bstand-ins?\b/i, 'local upstream, substitute'],
  [/\bclothes\b/i, 'form'],
  [/\bbattery clock\b/i, 'RTC'],
  [/\bsteady clock\b/i, 'monotonic clock'],
]

const comments = (line: string): string =>
  /^\s*(?:\/\/|\/?\*)(.*)$/.exec(line)?.[1] ?? /\s\/\/\s(.*)$/.exec(line)?.[1] ?? ''

/** What is in quotes on a line. */
const texts = (line: string): string => (line.match(/'[^']*'|`[^`]*`|"[^"]*"/g) ?? []).join(' ')

test('comments and texts use the words of the field', () => {
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
        const read = `${comment} ${texts(line)}`
        for (const [word, instead] of REFUSED)
          if (word.test(read)) wrong.push(`${folder}/${name}:${at + 1}: ${word.exec(read)![0]} → ${instead}`)
      }
    }
  assert.ok(lines > 9000, `${lines}`)
  assert.deepEqual(wrong, [])
  assert.equal(comments('  const told = 1 // told once'), 'told once')
})
