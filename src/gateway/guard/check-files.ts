// Files that a configuration names: checked when it is written, since a FIFO or a device would block or wake what it belongs to
// when it is read, and would end the next start. A path that does not exist yet is fine.
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Config, ConfigStore } from '../../config'
import { OsError, orElse } from '../../lib/errors'

const IN_TLS = /^(ca|cert|key|client_ca)$/

/** Throws CONFIG_INVALID for the first file of `next`, other than in `now`, that is there and no regular file. */
export function refuseSpecialFiles(now: unknown, next: Config): void {
  const base = ConfigStore.of(now as object)?.dataDir ?? ''
  const walk = (value: unknown, old: unknown, path: readonly string[]): void => {
    if (value === old) return
    const name = path.at(-1) ?? ''
    if (typeof value === 'object' && value !== null) {
      for (const [part, item] of Object.entries(value))
        walk(item, (old as Record<string, unknown> | undefined | null)?.[part], [...path, part])
    } else if (typeof value === 'string' && value !== '') {
      if (!/^(dbc|rules_file)$/.test(name) && !(path.at(-2) === 'tls' && IN_TLS.test(name))) return
      const file = name === 'rules_file' ? resolve(base, value) : value
      if (orElse(true, () => statSync(file).isFile())) return
      const key = path.join('.')
      throw new OsError('CONFIG_INVALID', `${key}: E_NOT_REGULAR: ${value} is no regular file`, { details: { key } })
    }
  }
  walk(next, now, [])
}
