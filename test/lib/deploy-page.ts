// The examples of docs/deploy-upstream.md.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './gateway'

const page = readFileSync(join(root, 'docs/deploy-upstream.md'), 'utf8')
const blocks = [...page.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
  language,
  text: text!,
}))

/** The only example in that language (none: '') with that word. */
export function block(language: string, word: string): string {
  const found = blocks.filter(one => one.language === language && one.text.includes(word))
  assert.equal(found.length, 1, `${language} blocks with ${word}`)
  return found[0]!.text
}
