// The addon inside the bundle, for a bundle without further files: unpacked into the data directory, under a name that
// contains its hash, which is checked at each load; or else into a new temporary folder, which is removed after
// loading. Errors: a folder that belongs to another user, cannot be written or is mounted noexec; the next one is
// tried, and if none is left all reasons are reported. Nothing here throws.

import { createHash } from 'node:crypto'
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import addons from 'native-addons'
import { asOsError } from '../lib/errors'

/** The addon packed for one platform: SHA-256 of the file, and the file in Brotli and base64. */
export interface EmbeddedAddon {
  readonly sha256: string
  readonly packed: string
}

/** For `linux-x64` and similar; undefined: this bundle has none for it. */
export const embeddedFor = (platform: string): EmbeddedAddon | undefined =>
  (addons as Record<string, EmbeddedAddon>)[platform]

let kept: string | undefined

/** Sets the data directory of this process: the addon is unpacked there once, not by every process. */
export function unpackInto(dataDir: string): void {
  kept = join(dataDir, 'native')
}

/** Unpacks and loads. Null when it is loaded, else the reasons, one for each folder tried. */
export function loadEmbedded(
  { sha256, packed }: EmbeddedAddon,
  load: (path: string) => void,
  keptIn = kept,
): string | null {
  const bytes = (): Buffer => brotliDecompressSync(Buffer.from(packed, 'base64'))
  const reasons: string[] = []
  for (const attempt of [
    () => keptIn !== undefined && load(keptFile(keptIn, sha256, bytes)),
    () => loadFromTemp(bytes, load),
  ])
    try {
      if (attempt() !== false) return null
    } catch (error) {
      reasons.push(asOsError(error).message)
    }
  return reasons.join('; ')
}

/** The file in the data directory, written if it is missing or differs from the bundle. Throws the system's error. */
function keptFile(dir: string, sha256: string, bytes: () => Buffer): string {
  const uid = process.getuid?.()
  // root with another user's data directory would load a file that this user can replace
  if (statSync(dirname(dir)).uid !== uid) throw new Error(`${dirname(dir)} belongs to another user`)
  mkdirSync(dir, { mode: 0o700, recursive: true })
  const { mode, uid: owner } = lstatSync(dir)
  if (owner !== uid || (mode & 0o170077) !== 0o040000)
    throw new Error(`${dir} is open to other users: chmod 700 ${dir}`)
  const path = join(dir, `os_node-${sha256.slice(0, 16)}.node`)
  if (hashOf(path) === sha256) return path
  for (const name of readdirSync(dir)) if (/^os_node-/.test(name)) rmSync(join(dir, name)) // of older versions
  const fresh = `${path}.${process.pid}`
  writeFileSync(fresh, bytes(), { mode: 0o700 })
  renameSync(fresh, path)
  return path
}

const hashOf = (path: string): string | undefined => {
  try {
    return createHash('sha256').update(readFileSync(path)).digest('hex')
  } catch {
    return undefined // missing: written now
  }
}

function loadFromTemp(bytes: () => Buffer, load: (path: string) => void): void {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-'))
  try {
    const path = join(dir, 'os_node.node')
    writeFileSync(path, bytes(), { mode: 0o700 })
    load(path)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** The mount point of a file, if it is mounted noexec. */
export function noexecMount(path: string, mounts = mountTable()): string | undefined {
  const holds = (point: string): boolean => path === point || path.startsWith(point === '/' ? '/' : `${point}/`)
  const on = mounts.filter(([point]) => holds(point)).sort(([a], [b]) => b.length - a.length)[0]
  return on && /(^|,)noexec(,|$)/.test(on[1]) ? on[0] : undefined
}

/** Mount points with their options, in the format of proc(5): blanks are written \040. */
function mountTable(): [string, string][] {
  try {
    return readFileSync('/proc/self/mounts', 'utf8')
      .split('\n')
      .filter(Boolean)
      .map(line => line.split(' '))
      .map(([, point = '', , options = '']) => [
        point.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
        options,
      ])
  } catch {
    return [] // without /proc the loader's own message must be enough
  }
}
