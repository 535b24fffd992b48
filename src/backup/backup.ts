// Writes a backup of a data directory, which is only read: a gateway may run on it. Files that belong together are captured
// in one turn: the log segments, which only grow, up to their current end, then the allocator's file with its journal. Files
// that are replaced atomically (atomic.ts) are read later.
//
// Errors: a file that was removed meanwhile (an expired window) is left out. Any other error of the system ends the backup.
import { dirname, join } from 'node:path'
import { asOsError, errno, OsError } from '../lib/errors'
import { type HeldFile, holdFile, realFiles } from '../lib/files'
import { diskFault } from '../lib/writable'
import { type ConfigPlace, contentsOf } from './contents'
import { type BackupHeader, BackupWriter, PIECE, type Sink } from './format'
import { checkBackup } from './restore'
import { type Secrets, seal } from './seal'

export interface BackupSource {
  readonly dataDir: string
  /** text of Config.json, complete and without its secrets */
  readonly config: { readonly whole: string; readonly bare: string; readonly leftOut: readonly string[] }
  readonly place: ConfigPlace
  readonly about: Pick<BackupHeader, 'version' | 'created' | 'device_id' | 'assigned_id'>
  /** absent: no secrets */
  readonly passphrase?: string | undefined
}

export interface BackupResult {
  readonly files: number
  /** of the files, uncompressed */
  readonly bytes: number
  readonly secrets: boolean
  readonly left_out: readonly string[]
}

interface Held {
  readonly path: string
  /** a segment or the allocator's file, opened early */
  readonly file?: HeldFile
  /** the whole content, or what follows that of `file` */
  readonly bytes?: Buffer
}

const TRIES = 10

/**
 * Writes the file `to` atomically; it is read and verified before it gets its name. Throws USAGE if it exists and may not be replaced (`force`),
 * DISK_FULL, STORAGE, E_BACKUP.
 */
export async function backupTo(to: string, force: boolean, source: BackupSource): Promise<BackupResult> {
  if (!force && realFiles.exists(to))
    throw new OsError('USAGE', `${to} already exists`, { hint: 'name another file, or replace it with --force' })
  const part = `${to}.${process.pid}.part`
  try {
    const fd = written(to, () => realFiles.open(part, 'w'))
    let result: BackupResult
    try {
      result = await writeBackup(source, async bytes => written(to, () => realFiles.write(fd, bytes)))
      written(to, () => realFiles.syncNow(fd))
    } finally {
      realFiles.close(fd)
    }
    checkBackup(part, source.passphrase)
    written(to, () => realFiles.rename(part, to))
    realFiles.syncDir(dirname(to))
    return result
  } finally {
    realFiles.remove(part)
  }
}

function written<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (cause) {
    const code = errno(cause) === 'ENOSPC' ? 'DISK_FULL' : 'STORAGE'
    throw new OsError(code, `${path} could not be written: ${diskFault(cause) ?? asOsError(cause).message}`, { cause })
  }
}

/** Writes everything into `sink`, in order. */
export async function writeBackup(source: BackupSource, sink: Sink): Promise<BackupResult> {
  const { dataDir, config, about, passphrase } = source
  const writer = new BackupWriter(sink)
  const { paths, secret } = contentsOf(dataDir, realFiles, source.place)
  const held = hold(dataDir, paths)
  const sealed: Record<string, string> = {}
  try {
    const header = { ...about, secrets: passphrase !== undefined, left_out: config.leftOut }
    const bytes = await writer.begin(header)
    await writer.file('Config.json', [Buffer.from(config.bare)])
    for (const one of held) {
      const path = `data/${one.path}`
      if (!secret.has(one.path)) await writeHeld(writer, dataDir, one)
      else if (passphrase !== undefined) sealed[path] = realFiles.read(join(dataDir, one.path)).toString('base64')
    }
    if (passphrase !== undefined) {
      const secrets: Secrets = { ...sealed, 'Config.json': Buffer.from(config.whole).toString('base64') }
      await writer.seal(seal(secrets, passphrase, bytes))
    }
    await writer.end()
    const { files, bytes: size } = writer
    return { files, bytes: size, secrets: passphrase !== undefined, left_out: config.leftOut }
  } finally {
    for (const { file } of held) file?.close()
  }
}

/**
 * Opens files that may be removed or change together, without yielding in between; the newest segment first, since the log of another process
 * may drop its oldest ones meanwhile, and a hole would be damage.
 */
function hold(dataDir: string, paths: readonly string[]): Held[] {
  const held = new Map<string, Held[]>()
  for (const path of [...paths].reverse()) {
    const whole = join(dataDir, path)
    // a journal is held with the file it belongs to
    if (path.endsWith('.journal') && paths.includes(path.slice(0, -'.journal'.length))) continue
    const isIds = paths.includes(`${path}.journal`)
    if (!isIds && !path.endsWith('.seg')) held.set(path, [{ path }])
    else {
      try {
        held.set(path, isIds ? withJournal(path, whole) : [holdSegment(path, whole)])
      } catch (error) {
        if (errno(error) !== 'ENOENT') throw error
      }
    }
  }
  return paths.flatMap(path => held.get(path) ?? [])
}

/**
 * A segment that is written has its later size already, and zeros for the records to come. They are left out, without reading
 * the file again: it grows meanwhile. The last record may end with zeros too, at most the four bytes of its checksum.
 */
function holdSegment(path: string, whole: string): Held {
  const size = realFiles.size(whole)
  let end = size
  for (let last = -1; last === -1 && end > 0; ) {
    const from = Math.max(0, end - 4096)
    last = realFiles.readAt(whole, from, end - from).findLastIndex(byte => byte !== 0)
    end = from + last + 1
  }
  return { path, file: holdFile(whole, end), bytes: Buffer.alloc(Math.min(size - end, 4)) }
}

/**
 * The journal loses its lines after the file that contains them is in place: as long as that is the same file, both belong
 * together.
 */
function withJournal(path: string, whole: string): Held[] {
  for (let left = TRIES; ; left--) {
    const file = holdFile(whole)
    const bytes = realFiles.read(`${whole}.journal`)
    if (file.named() || left === 0)
      return [
        { path, file },
        { path: `${path}.journal`, bytes },
      ]
    file.close()
  }
}

function* piecesOf(file: HeldFile | undefined, bytes: Buffer | undefined): Generator<Buffer> {
  if (file) yield* file.pieces(PIECE)
  for (let at = 0; bytes && at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE)
}

async function writeHeld(writer: BackupWriter, dataDir: string, { path, file, bytes }: Held): Promise<void> {
  if (file || bytes) return writer.file(`data/${path}`, piecesOf(file, bytes))
  let own: HeldFile
  try {
    own = holdFile(join(dataDir, path))
  } catch (error) {
    if (errno(error) === 'ENOENT') return
    throw error
  }
  try {
    await writer.file(`data/${path}`, own.pieces(PIECE))
  } finally {
    own.close()
  }
}
