// Compares the parts of os-node with the manifest that the build wrote into the bundle: each is as built, missing, damaged,
// or unreadable. Parts for other platforms are left out.
//
// Errors: a bundle without a manifest (edited by hand, or truncated) counts as damaged. Never throws.
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { asOsError, errno, orElse } from '../../lib/errors'

/** written by manifest.mjs */
const MARK = '\n//# osNodeManifest='

const PART = v.object({
  /** unique: `quic-linux-x64` */
  name: v.string(),
  kind: v.picklist(['bundle', 'native']),
  version: v.string(),
  /** path relative to the folder of the bundle */
  file: v.string(),
  platform: v.optional(v.string()),
  sha256: v.string(),
  bytes: v.number(),
  /** the npm package that also contains the file */
  package: v.optional(v.object({ name: v.string(), version: v.string(), file: v.string() })),
  /** the bundle contains these bytes too, and unpacks them if the file is missing */
  inside: v.optional(v.boolean()),
})
const MANIFEST = v.object({ version: v.string(), parts: v.array(PART) })
export type Part = v.InferOutput<typeof PART>
export type Manifest = v.InferOutput<typeof MANIFEST>

/** `inside`: the file is missing but not needed, since the bundle contains it */
type PartState = 'ok' | 'inside' | 'missing' | 'damaged' | 'unreadable'

export interface CheckedPart extends Part {
  readonly path: string
  readonly state: PartState
  /** of the current file */
  readonly found_sha256: string | null
  /** errno if it cannot be read */
  readonly errno?: string
}

export const PLATFORM = `${process.platform}-${process.arch}`

/** Folder of the bundle: the folder of this file, or one below the root set by tests. */
export function distFolder(): string {
  const root = process.env.OS_NODE_TEST_ROOT
  return root ? join(root, 'dist') : __dirname
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** The bytes covered by the bundle's hash, and the manifest after them (null: no readable manifest). */
export function splitBundle(bytes: Buffer): { code: Buffer; manifest: Manifest | null } {
  const at = bytes.lastIndexOf(MARK)
  const last = at < 0 ? '' : bytes.toString('latin1', at + MARK.length)
  // the code itself contains the mark too
  if (!/^[A-Za-z0-9+/=]+\n$/.test(last)) return { code: bytes, manifest: null }
  const text = Buffer.from(last, 'base64').toString('utf8')
  try {
    return { code: bytes.subarray(0, at), manifest: v.parse(MANIFEST, JSON.parse(text)) }
  } catch {
    return { code: bytes.subarray(0, at), manifest: null } // reported as a damaged bundle
  }
}

/** The manifest of this program. Null: the bundle cannot be read or has no manifest. */
export const readManifest = (dist = distFolder()): Manifest | null =>
  orElse(null, () => splitBundle(readFileSync(join(dist, 'os-node.js'))).manifest)

/** Parts of this machine. */
export const partsHere = ({ parts }: Manifest, platform = PLATFORM): Part[] =>
  parts.filter(part => part.platform === undefined || part.platform === platform)

/** True if the part needs no repair. */
export const isWell = ({ state }: CheckedPart): boolean => state === 'ok' || state === 'inside'

export function checkPart(part: Part, dist = distFolder()): CheckedPart {
  const path = join(dist, part.file)
  try {
    const bytes = readFileSync(path)
    const found_sha256 = sha256(part.kind === 'bundle' ? splitBundle(bytes).code : bytes)
    return { ...part, path, state: found_sha256 === part.sha256 ? 'ok' : 'damaged', found_sha256 }
  } catch (error) {
    const code = errno(error) ?? asOsError(error).code
    const state = code !== 'ENOENT' ? 'unreadable' : part.inside ? 'inside' : 'missing'
    return { ...part, path, state, found_sha256: null, errno: code }
  }
}

let known: { stamp: string; problems: { name: string; problem: string }[] } | undefined

/** Size and time of a file, to detect whether it changed. */
function stampOf(path: string): string {
  try {
    const { size, mtimeMs, ino } = statSync(path)
    return `${size}/${mtimeMs}/${ino}`
  } catch (error) {
    return errno(error) ?? 'unknown'
  }
}

/** Problems with the parts of this machine, as text; unchanged files are not read again. */
export function problemsOf(dist = distFolder()): readonly { name: string; problem: string }[] {
  const manifest = readManifestOnce(dist)
  if (!manifest) return [] // built without a manifest: no part is known to be missing
  const here = partsHere(manifest)
  const stamp = here.map(({ file }) => stampOf(join(dist, file))).join(' ')
  if (known?.stamp === stamp) return known.problems
  const problems = here
    .map(part => checkPart(part, dist))
    .filter(part => !isWell(part))
    .map(({ name, state, path }) => ({ name, problem: `${path} is ${state}` }))
  known = { stamp, problems }
  return problems
}

const manifests = new Map<string, Manifest | null>()

/** The manifest at the first read: a bundle replaced since then is another release. */
function readManifestOnce(dist: string): Manifest | null {
  if (!manifests.has(dist)) manifests.set(dist, readManifest(dist))
  return manifests.get(dist)!
}
