// Selects sensors by name: a glob (`temp*`, several with commas) or a regular expression between slashes (`/^cpu_/i`).
// An expression that does not compile is CONFIG_INVALID.
import { OsError } from '../../src/lib/errors'

export function matcher(pattern: string | undefined): (name: string) => boolean {
  if (pattern === undefined || pattern === '' || pattern === '*') return () => true
  const [, source, flags] = /^\/(.+)\/([imsu]*)$/.exec(pattern) ?? []
  if (source !== undefined) {
    try {
      const expression = new RegExp(source, flags)
      return name => expression.test(name)
    } catch (cause) {
      throw new OsError('CONFIG_INVALID', `match ${pattern} is not a regular expression`, { cause })
    }
  }
  const globs = pattern.split(',').map(glob => {
    const text = glob.trim().replace(/[.+^${}()|[\]\\]/g, '\\$&')
    return new RegExp(`^${text.replace(/\*+/g, '.*').replace(/\?/g, '.')}$`)
  })
  return name => globs.some(glob => glob.test(name))
}
