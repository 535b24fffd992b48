// The parts os-node is made of, held against the manifest that the build wrote into the bundle: each is there and as built,
// missing, damaged, or cannot be read. Parts for other kinds of machine are left out.
//
// What fails: a bundle without a manifest (it was changed by hand, or its end is gone) counts as damaged. Never throws.
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { asOsError, errno, orElse } from '../../lib/errors'

/** written by manifest.mjs */
const MARK = '\n//# osNodeManifest='

const PART = v.object({
  /** of its own: `quic-linux-x64` */
  name: v.string(),
  kind: v.picklist(['bundle', 'native']),
  version: v.string(),
  /** below the folder of the bundle */
  file: v.string(),
  platform: v.optional(v.string()),
  sha256: v.string(),
  bytes: v.number(),
  /** the npm package that the file is in too */
  package: v.optional(v.object({ name: v.string(), version: v.string(), file: v.string() })),
  /** the bundle carries these bytes too, and unpacks them where the file is missing */
  inside: v.optional(v.boolean()),
})
const MANIFEST = v.object({ version: v.string(), parts: v.array(PART) })
export type Part = v.InferOutput<typeof PART>
export type Manifest = v.InferOutput<typeof MANIFEST>

/** `inside`: no file, and none is needed, for the bundle carries it */
type PartState = 'ok' | 'inside' | 'missing' | 'damaged' | 'unreadable'

export interface CheckedPart extends Part {
  readonly path: string
  readonly state: PartState
  /** of the file as it is */
  readonly found_sha256: string | null
  /** errno where it cannot be read */
  readonly errno?: string
}

export const PLATFORM = `${process.platform}-${process.arch}`

/** Folder of the bundle: this file's, or below the root that tests name. */
export function distFolder(): string {
  const root = process.env.OS_NODE_TEST_ROOT
  return root ? join(root, 'dist') : __dirname
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** The bytes that the bundle's hash is of, and the manifest behind them (null: there is none that can be read). */
export function splitBundle(bytes: Buffer): { code: Buffer; manifest: Manifest | null } {
  const at = bytes.lastIndexOf(MARK)
  const last = at < 0 ? '' : bytes.toString('latin1', at + MARK.length)
  // the code itself holds the mark too
  if (!/^[A-Za-z0-9+/=]+\n$/.test(last)) return { code: bytes, manifest: null }
  const text = Buffer.from(last, 'base64').toString('utf8')
  try {
    return { code: bytes.subarray(0, at), manifest: v.parse(MANIFEST, JSON.parse(text)) }
  } catch {
    return { code: bytes.subarray(0, at), manifest: null } // reported as a damaged bundle
  }
}

/** What this program is made of. Null: the bundle cannot be read or has no manifest. */
export const readManifest = (dist = distFolder()): Manifest | null =>
  orElse(null, () => splitBundle(readFileSync(join(dist, 'os-node.js'))).manifest)

/** Parts of this machine. */
export const partsHere = ({ parts }: Manifest, platform = PLATFORM): Part[] =>
  parts.filter(part => part.platform === undefined || part.platform === platform)

/** Nothing has to be done about it. */
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

/** Size and time of a file, to see whether it is worth another look. */
function stampOf(path: string): string {
  try {
    const { size, mtimeMs, ino } = statSync(path)
    return `${size}/${mtimeMs}/${ino}`
  } catch (error) {
    return errno(error) ?? 'unknown'
  }
}

/** What is wrong with the parts of this machine, in words; files that did not change are not read again. */
export function problemsOf(dist = distFolder()): readonly { name: string; problem: string }[] {
  const manifest = readManifestOnce(dist)
  if (!manifest) return [] // built without one: nothing is known to be missing
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

/** The manifest as it was when it was first read: a bundle replaced meanwhile is another release. */
function readManifestOnce(dist: string): Manifest | null {
  if (!manifests.has(dist)) manifests.set(dist, readManifest(dist))
  return manifests.get(dist)!
}
