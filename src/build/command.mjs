// The command lines of build.mjs and release.mjs: options, --help, key files, and the end of the process after an error.
// What fails: an unknown option, an unexpected argument, a missing value, a file that is no key (E_USAGE, exit status 2).
import { createPrivateKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'

/** An error of the command line. `why` says what is wrong and what to do. */
export const usageError = why => new Error(`E_USAGE: ${why}`)

/** Ends the process at any error: one with a code (E_…) is printed as its message, others with their stack. */
export function reportErrors() {
  process.on('uncaughtException', error => {
    const code = /^(E_\w+): /.exec(error?.message)?.[1]
    console.error(code ? error.message : error)
    process.exit(code === 'E_USAGE' ? 2 : 1)
  })
}

/** Why a token of parseArgs is refused; undefined if it is accepted. */
function whyWrong({ kind, name, rawName, value, inlineValue }, options) {
  if (kind === 'positional') return `${value} belongs to no option`
  if (kind !== 'option') return undefined
  const { type, optional } = options[name] ?? {}
  if (!type) return `there is no option ${rawName}`
  if (type === 'boolean') return value === undefined ? undefined : `${rawName} takes no value`
  return (value || optional) && (inlineValue || !value.startsWith('-')) ? undefined : `${rawName} has no value`
}

/**
 * The values of `options` (format of parseArgs); an option with `optional` may lack its value, which is then ''. `--help` prints `help`
 * and ends the process. Throws E_USAGE.
 */
export function readOptions(args, options, help) {
  const all = { ...options, help: { type: 'boolean', short: 'h' } }
  const whole = args.map(arg => (all[arg.slice(2)]?.optional ? `${arg}=` : arg))
  const { values, tokens } = parseArgs({ args: whole, options: all, strict: false, tokens: true })
  if (values.help) {
    console.log(help)
    process.exit(0)
  }
  const wrong = tokens.map(token => whyWrong(token, all)).find(Boolean)
  if (wrong) throw usageError(`${wrong}: --help lists the options`)
  return values
}

/** The Ed25519 key in the PEM file `path`, the value of `option`: a private one, or what `read` makes of it. Throws E_USAGE. */
export function keyIn(path, option, read = createPrivateKey) {
  const make =
    'openssl genpkey -algorithm ed25519 -out FILE makes a private key, openssl pkey -in FILE -pubout its public half'
  let key
  try {
    key = read(readFileSync(path))
  } catch (error) {
    if (error.code === 'ENOENT') throw usageError(`${option}: there is no file ${path}; ${make}`)
  }
  const kind = read === createPrivateKey ? 'private ' : ''
  if (key?.asymmetricKeyType !== 'ed25519') throw usageError(`${option}: ${path} is no ${kind}Ed25519 key; ${make}`)
  return key
}
