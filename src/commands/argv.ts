// Splits a command line into argv, with the usual quoting and no other shell features: no variables, globs, pipes or
// substitution. Unbalanced quotes are BAD_REQUEST.
import { OsError } from '../lib/errors'
import { isSecretName, MASK, maskText, mayBeSecret, VALUE } from '../lib/secrets'

const MAX_CHARS = 64 * 1024

/** Throws BAD_REQUEST for a line that is empty, too long, or has an open quote. A leading `os-node` is allowed. */
export function splitCommand(line: string): string[] {
  if (line.length > MAX_CHARS) throw new OsError('BAD_REQUEST', `a command is at most ${MAX_CHARS} characters`)
  const argv: string[] = []
  let word: string | null = null
  let quote = ''
  for (let k = 0; k < line.length; k++) {
    const c = line[k]!
    if (quote === "'") {
      if (c === quote) quote = ''
      else word += c
    } else if (c === '\\') {
      const next = line[++k]
      if (next === undefined) throw new OsError('BAD_REQUEST', 'the command ends with a backslash')
      // within double quotes a backslash is literal except before " and \
      word = (word ?? '') + (quote && next !== '"' && next !== '\\' ? `\\${next}` : next)
    } else if (quote) {
      if (c === quote) quote = ''
      else word += c
    } else if (c === '"' || c === "'") {
      quote = c
      word ??= ''
    } else if (/\s/.test(c)) {
      if (word !== null) argv.push(word)
      word = null
    } else word = (word ?? '') + c
  }
  if (quote) throw new OsError('BAD_REQUEST', `the command has an open ${quote}`)
  if (word !== null) argv.push(word)
  if (argv[0] === 'os-node') argv.shift()
  if (argv.length === 0) throw new OsError('BAD_REQUEST', 'empty command')
  return argv
}

/** Verbs whose words are a key and its value. */
const SETS = /^config-set$/

/** The command line for the log, without control characters and secret values. */
export function auditText(argv: readonly string[]): string {
  const setsSecret =
    argv.some((word, k) => /^--key(=|$)/.test(word) && namesSecret(keyAt(argv, k))) ||
    (argv.some(word => SETS.test(word)) && argv.some(word => !word.startsWith('-') && namesSecret(word)))
  const shown = argv.map((word, k) => {
    const [, name, value] = /^--([\w-]+)(?:=([\s\S]*))?$/.exec(word) ?? []
    if (name !== undefined && value !== undefined && isSecret(name, setsSecret)) return `--${name}=${MASK}`
    const [, before] = /^--([\w-]+)$/.exec(argv[k - 1] ?? '') ?? []
    if (before !== undefined && !word.startsWith('--') && isSecret(before, setsSecret)) return MASK
    // a value that follows its key without an option
    if (setsSecret && !word.startsWith('-') && namesSecret(argv[k - 1] ?? '') && before === undefined) return MASK
    const text = value === undefined ? maskText(word) : `--${name}=${maskText(value)}`
    return /[\s"'\\]/.test(text) || text === '' ? JSON.stringify(text) : text
  })
  // control characters could forge lines of the log
  const text = shown.join(' ').replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, '?')
  return text.length > 500 ? `${text.slice(0, 500)}…` : text
}

/** A key named `value`, or an element of a list, may be the secret of a pair. */
function namesSecret(key: string): boolean {
  const parts = key.split(/[.[\]]+/).filter(Boolean)
  const inPair = /^[a-z]/i.test(key) && parts.length > 2 && (VALUE.test(parts.at(-1)!) || /^\d+$/.test(parts.at(-1)!))
  return inPair || parts.some(mayBeSecret)
}

const keyAt = (argv: readonly string[], k: number): string =>
  argv[k]!.includes('=') ? argv[k]!.slice(argv[k]!.indexOf('=') + 1) : (argv[k + 1] ?? '')

const isSecret = (option: string, setsSecret: boolean): boolean =>
  isSecretName(option) || (setsSecret && option === 'value')
