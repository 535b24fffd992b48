// Restores a part: from a copy kept in the data directory, else with npm. Only bytes with the SHA-256 of the manifest are
// installed, by a rename. If neither works, the result says which file to copy to which path. Errors are in the result.
import { existsSync, fchmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { asOsError, errno } from '../../lib/errors'
import { realFiles } from '../../lib/files'
import { type CheckedPart, type Part, sha256, splitBundle } from './manifest-parts'
import { run } from './program'

export interface RestoreParts {
  readonly dataDir: string
  /** the npm program */
  readonly npm: string
  /** '': npm's default */
  readonly registry: string
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

export interface RestoredFile {
  readonly name: string
  readonly ok: boolean
  /** source of the bytes */
  readonly from?: 'copy' | 'npm' | 'file'
  readonly error?: string
  /** the manual remedy */
  readonly copy?: { readonly from: string; readonly to: string; readonly sha256: string }
}

type Source = readonly [from: NonNullable<RestoredFile['from']>, read: () => Buffer | Promise<Buffer>]

const copiesOf = (dataDir: string): string => join(dataDir, 'parts')

/** The bytes covered by a part's hash. */
const hashed = (part: Part, bytes: Buffer): Buffer => (part.kind === 'bundle' ? splitBundle(bytes).code : bytes)

/** Keeps a copy of an intact part for a later repair. Throws the system's error. */
export function keepCopy(part: CheckedPart, dataDir: string): boolean {
  const path = join(copiesOf(dataDir), part.sha256)
  const bytes = readFileSync(part.path)
  try {
    if (sha256(hashed(part, readFileSync(path))) === part.sha256) return false
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw error
  }
  place(path, bytes, 0o640)
  return true
}

/** Removes the copies of older releases. Throws the system's error. */
export function dropOtherCopies(wanted: readonly Part[], dataDir: string): void {
  const dir = copiesOf(dataDir)
  const names = new Set(wanted.map(part => part.sha256))
  for (const name of existsSync(dir) ? readdirSync(dir) : [])
    if (!names.has(name)) rmSync(join(dir, name), { force: true })
}

export async function restore(part: CheckedPart, parts: RestoreParts, file?: string): Promise<RestoredFile> {
  const { name, sha256: wanted, path } = part
  const tried: string[] = []
  for (const [from, read] of sourcesOf(part, parts, file)) {
    try {
      const bytes = await read()
      const found = sha256(hashed(part, bytes))
      if (found !== wanted) {
        tried.push(`${from}: its SHA-256 is ${found}`)
        continue
      }
      try {
        place(path, bytes, 0o755)
      } catch (error) {
        return { name, ok: false, error: `${path} cannot be written: ${errno(error) ?? asOsError(error).message}` }
      }
      return { name, ok: true, from }
    } catch (error) {
      tried.push(`${from}: ${asOsError(error).message}`)
    }
  }
  const origin = part.package
    ? `${part.package.file} of the npm package ${part.package.name}@${part.package.version}`
    : `dist/${part.file} of os-node ${part.version}`
  return { name, ok: false, error: tried.join('; '), copy: { from: origin, to: path, sha256: wanted } }
}

function sourcesOf(part: CheckedPart, parts: RestoreParts, file: string | undefined): Source[] {
  if (file !== undefined) return [['file', () => readFileSync(file)]]
  const { package: origin } = part
  return [
    ['copy', () => readFileSync(join(copiesOf(parts.dataDir), part.sha256))],
    ...(origin ? ([['npm', () => byNpm(origin, parts)]] as Source[]) : []),
  ]
}

/** One file of an npm package; its scripts are not run. Throws an Error with the reason. */
async function byNpm(
  { name, version, file }: NonNullable<Part['package']>,
  { dataDir, npm, registry, timeoutMs, signal }: RestoreParts,
): Promise<Buffer> {
  mkdirSync(dataDir, { recursive: true })
  const stage = mkdtempSync(join(dataDir, '.parts-'))
  try {
    const flags = [
      '--ignore-scripts',
      '--no-save',
      '--no-audit',
      '--no-fund',
      '--no-package-lock',
      '--force',
      '--loglevel=error',
    ]
    if (registry) flags.push(`--registry=${registry}`)
    const args = ['install', ...flags, '--prefix', stage, `${name}@${version}`]
    const ran = await run(npm, args, { timeoutMs, cwd: stage, signal })
    if (ran.errno === 'ENOENT') throw new Error('npm is not on this machine')
    if (ran.code !== 0) throw new Error(`npm: ${ran.errno ?? lastLine(ran.stderr)}`)
    return readFileSync(join(stage, 'node_modules', name, file))
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

/** npm prints the reason first and the path of its log last. */
const lastLine = (text: string): string =>
  text
    .split('\n')
    .map(line => line.replace(/^npm (error|ERR!|warn) ?/i, '').trim())
    .filter(line => line !== '' && !/complete log|--force|recommended protections/i.test(line))
    .slice(0, 2)
    .join(' ') || 'unknown reason'

/** Atomic; a running program keeps the old file until it ends. */
function place(path: string, bytes: Buffer, mode: number): void {
  mkdirSync(dirname(path), { recursive: true })
  const open: typeof realFiles.open = (temporary, flags) => {
    const fd = realFiles.open(temporary, flags)
    try {
      fchmodSync(fd, mode)
    } catch (error) {
      realFiles.close(fd)
      realFiles.remove(temporary)
      throw error
    }
    return fd
  }
  atomicWrite(path, bytes, { ...realFiles, open })
}
