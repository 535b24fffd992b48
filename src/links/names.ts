// Native names (chip labels, interface names, topics) are converted to names of [A-Za-z0-9_-] once, when a link or a
// sensor is created. Two native names with the same result are refused: readings of two sensors must never mix
// under one name.
import { OsError } from '../lib/errors'

const SAFE = /^[A-Za-z0-9_-]+$/

export const isSafeName = (name: string): boolean => SAFE.test(name)

/**
 * `native` in [A-Za-z0-9_-]: accents removed, every run of other characters becomes one `_`, none at the ends. A safe
 * name is unchanged. Throws CONFIG_INVALID when nothing is left.
 */
export function safeName(native: string): string {
  if (SAFE.test(native)) return native
  const name = native
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .replace(/[^A-Za-z0-9_-]+/g, '_')
    .replace(/^_+|_+$/g, '')
  if (name === '') throw new OsError('CONFIG_INVALID', `the name ${JSON.stringify(native)} has no letter or digit`)
  return name
}

/** The safe names of `natives`, in order. Throws CONFIG_INVALID with both natives when two of them clash. */
export function safeNames(natives: readonly string[]): string[] {
  const seen = new Map<string, string>()
  return natives.map(native => {
    const name = safeName(native)
    const other = seen.get(name)
    if (other !== undefined)
      throw new OsError(
        'CONFIG_INVALID',
        `two names become ${name}: ${JSON.stringify(other)}, ${JSON.stringify(native)}`,
        {
          hint: 'rename one of them, or choose one with match',
        },
      )
    seen.set(name, native)
    return name
  })
}
