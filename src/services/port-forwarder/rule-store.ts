// The file of the rules. Read once; each change is written immediately and atomically. An existing file that cannot be read
// is STORAGE, and stays unchanged.
import { dirname } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { asOsError, errno, OsError } from '../../lib/errors'
import { type Files, realFiles } from '../../lib/files'
import { checkRule, type Rule } from './rules'

const MAX_RULES = 1000

export class RuleStore {
  readonly path: string
  readonly #files: Files
  #rules: readonly Rule[] = []

  /** Throws STORAGE. */
  constructor(path: string, files: Files = realFiles) {
    this.path = path
    this.#files = files
    this.#rules = this.#read()
  }

  /** In insertion order. */
  get rules(): readonly Rule[] {
    return this.#rules
  }

  find(name: string): Rule | undefined {
    return this.#rules.find(rule => rule.name === name)
  }

  /** Adds a rule. Throws BAD_REQUEST (the name is in use, unless `replace`), STORAGE. */
  add(input: unknown, replace = false): Rule {
    const rule = checkRule(input)
    const known = this.find(rule.name)
    if (known && !replace)
      throw new OsError('BAD_REQUEST', `rule ${rule.name} already exists`, {
        hint: 'use --replace, or another name',
      })
    if (!known && this.#rules.length >= MAX_RULES)
      throw new OsError('BAD_REQUEST', `there are ${MAX_RULES} rules, the maximum`)
    this.#write(known ? this.#rules.map(old => (old === known ? rule : old)) : [...this.#rules, rule])
    return rule
  }

  /** Throws NOT_FOUND, STORAGE. */
  change(name: string, change: Partial<Rule>): Rule {
    return this.add({ ...this.#known(name), ...change }, true)
  }

  /** Throws NOT_FOUND, STORAGE. */
  remove(name: string): Rule {
    const rule = this.#known(name)
    this.#write(this.#rules.filter(other => other !== rule))
    return rule
  }

  #known(name: string): Rule {
    const rule = this.find(name)
    if (!rule) throw new OsError('NOT_FOUND', `no rule ${JSON.stringify(name)}`)
    return rule
  }

  #read(): Rule[] {
    let text: string
    try {
      text = this.#files.read(this.path).toString('utf8')
    } catch (cause) {
      if (errno(cause) === 'ENOENT') return []
      throw new OsError('STORAGE', `${this.path} cannot be read: ${errno(cause)}`, { cause })
    }
    try {
      const { rules } = JSON.parse(text) as { rules?: unknown }
      if (!Array.isArray(rules)) throw new OsError('BAD_REQUEST', 'it contains no list of rules')
      return rules.map(checkRule)
    } catch (cause) {
      throw new OsError('STORAGE', `${this.path}: ${asOsError(cause).message}`, {
        cause,
        hint: 'repair the file, or move it away to start without rules',
      })
    }
  }

  #write(rules: readonly Rule[]): void {
    try {
      this.#files.mkdir(dirname(this.path))
      atomicWrite(this.path, `${JSON.stringify({ version: 1, rules }, null, 2)}\n`, this.#files)
    } catch (cause) {
      throw new OsError('STORAGE', `${this.path} cannot be written: ${errno(cause) ?? asOsError(cause).message}`, {
        cause,
      })
    }
    this.#rules = rules
  }
}
