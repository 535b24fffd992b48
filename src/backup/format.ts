// The backup file: one line `os-node backup 1`, then records of a kind (one letter), a length (u32 big endian) and bytes: the
// header (H), for each file its name (F), its bytes deflated in pieces (D) and their SHA-256 (E), the sealed secrets (S), and
// the end (Z) with the SHA-256 of everything before it.
//
// Errors: E_BACKUP for a file that is no backup, has another format, is truncated or damaged; none of it is used then.
import { createHash, type Hash } from 'node:crypto'
import { promisify } from 'node:util'
import { deflateRaw, inflateRawSync } from 'node:zlib'
import { asOsError, errno, OsError, orElse } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { isObject } from '../lib/objects'

/** of the file; other versions are refused */
export const FORMAT = 1
const FIRST_LINE = `os-node backup ${FORMAT}\n`
const FIRST = /^os-node backup (\d{1,6})\n/
/** bytes of a file per record */
export const PIECE = 1 << 20
/** maximum record length: secrets are a few files of a few KB */
const MOST = 16 << 20

export interface BackupHeader {
  /** of the program that wrote it */
  readonly version: string
  /** UNIX ms */
  readonly created: number
  readonly device_id: string
  readonly assigned_id: number
  /** it contains sealed secrets */
  readonly secrets: boolean
  /** keys of Config.json that were left out because they contain secrets */
  readonly left_out: readonly string[]
}

export type Sink = (bytes: Uint8Array) => Promise<void>
type Kind = 'H' | 'F' | 'D' | 'E' | 'S' | 'Z'

const deflate = promisify(deflateRaw)
const json = (value: object): Buffer => Buffer.from(JSON.stringify(value))
const newHash = (): Hash => createHash('sha256')

/** Writes the records in order. */
export class BackupWriter {
  readonly #sink: Sink
  readonly #all = newHash()
  files = 0
  bytes = 0

  constructor(sink: Sink) {
    this.#sink = sink
  }

  /** Returns the bytes to which the seal of the secrets is bound. */
  async begin(header: BackupHeader): Promise<Buffer> {
    await this.#send(Buffer.from(FIRST_LINE))
    const bytes = json(header)
    await this.#record('H', bytes)
    return bytes
  }

  async file(path: string, pieces: Iterable<Buffer>): Promise<void> {
    await this.#record('F', json({ path }))
    const hash = newHash()
    let size = 0
    for (const piece of pieces) {
      hash.update(piece)
      size += piece.length
      await this.#record('D', (await deflate(piece, { level: 1 })) as Buffer)
    }
    await this.#record('E', json({ size, sha256: hash.digest('hex') }))
    this.files++
    this.bytes += size
  }

  seal(bytes: Buffer): Promise<void> {
    return this.#record('S', bytes)
  }

  async end(): Promise<void> {
    const { files, bytes } = this
    await this.#record('Z', json({ files, bytes, sha256: this.#all.copy().digest('hex') }))
  }

  async #record(kind: Kind, payload: Buffer): Promise<void> {
    const head = Buffer.alloc(5)
    head.write(kind, 'latin1')
    head.writeUInt32BE(payload.length, 1)
    await this.#send(head)
    await this.#send(payload)
  }

  #send(bytes: Buffer): Promise<void> {
    this.#all.update(bytes)
    return this.#sink(bytes)
  }
}

/** The reader of a backup: each file is reported as begin, pieces, end. */
export interface BackupVisitor {
  header?(header: BackupHeader, bytes: Buffer): void
  file?(path: string): void
  piece?(bytes: Buffer): void
  fileEnd?(): void
  sealed?(bytes: Buffer): void
}

/** A refused backup. */
export const wrong = (path: string, why: string, hint?: string): OsError =>
  new OsError('E_BACKUP', `${path}: ${why}; nothing was changed`, hint ? { hint } : {})

/** A name in a backup is `Config.json`, or a path inside the data directory. Throws E_BACKUP for any other. */
export function refuseOutside(file: string, name: string): void {
  const inside =
    name.startsWith('data/') && !name.includes('\0') && name.split('/').every(part => !['', '.', '..'].includes(part))
  if (name !== 'Config.json' && !inside)
    throw wrong(file, `the backup names a file outside of the data directory: ${name}`)
}

function parsed(path: string, payload: Buffer): Record<string, unknown> {
  const value: unknown = orElse(undefined, () => JSON.parse(payload.toString('utf8')))
  if (!isObject(value)) throw wrong(path, 'a record of it is damaged')
  return value
}

function headerFrom(path: string, payload: Buffer): BackupHeader {
  const { version, created, device_id, assigned_id, secrets, left_out } = parsed(path, payload)
  return {
    version: String(version),
    created: Number(created),
    device_id: String(device_id),
    assigned_id: Number(assigned_id),
    secrets: secrets === true,
    left_out: Array.isArray(left_out) ? left_out.map(String) : [],
  }
}

/** The format of a file. Throws E_BACKUP for any other format. */
function start(path: string, files: Files): number {
  let text: string
  try {
    text = files.readAt(path, 0, 32).toString('latin1')
  } catch (cause) {
    const why = errno(cause) ?? asOsError(cause).message
    throw new OsError('E_BACKUP', `${path} cannot be read (${why})`, {
      cause,
      hint: 'check the path; a restore by root reads it as the owner of the data directory',
    })
  }
  const first = FIRST.exec(text)
  if (!first) throw wrong(path, 'this is no backup of os-node', 'name a file that os-node backup wrote')
  if (Number(first[1]) !== FORMAT)
    throw wrong(
      path,
      `the backup has format ${first[1]}, this os-node reads format ${FORMAT}`,
      'restore it with the version of os-node that wrote it, or a later one',
    )
  return first[0].length
}

/** The header alone, not verified. Throws E_BACKUP. */
export function backupHeader(path: string, files: Files = realFiles): BackupHeader {
  const at = start(path, files)
  const head = files.readAt(path, at, 5)
  const length = head.length === 5 && head[0] === 0x48 ? head.readUInt32BE(1) : MOST + 1
  if (length > MOST) throw wrong(path, 'the backup is cut short or damaged')
  return headerFrom(path, files.readAt(path, at + 5, length))
}

/** Work in steps: after each step a gateway may do other work. */
export type Steps<T> = Generator<void, T>

/** Runs all steps. */
export function allOf<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Reads the complete file and verifies every byte, one record per step. Throws E_BACKUP, and the errors of the visitor. */
export function* readBackup(path: string, files: Files, visitor: BackupVisitor): Steps<void> {
  let at = start(path, files)
  const size = files.size(path)
  const all = newHash().update(files.readAt(path, 0, at))
  let file: { hash: Hash; size: number } | undefined
  let before: Kind | undefined
  const total = { files: 0, bytes: 0 }
  const damaged = (): OsError => wrong(path, `the backup is damaged near byte ${at}`)
  const cut = (): OsError =>
    wrong(path, `the backup is cut short at byte ${size}`, 'copy the file again, or take another')
  for (;;) {
    if (at + 5 > size) throw cut()
    const head = files.readAt(path, at, 5)
    const kind = String.fromCharCode(head[0]!) as Kind
    const length = head.readUInt32BE(1)
    if (!'HFDESZ'.includes(kind) || length > MOST) throw damaged()
    if (at + 5 + length > size) throw cut()
    const payload = files.readAt(path, at + 5, length)
    if ((kind === 'H') !== (before === undefined) || (file !== undefined) !== (kind === 'D' || kind === 'E'))
      throw damaged()
    before = kind
    if (kind === 'Z') {
      const end = parsed(path, payload)
      if (end.sha256 !== all.digest('hex') || end.files !== total.files || end.bytes !== total.bytes) throw damaged()
      if (at + 5 + length !== size) throw damaged()
      return
    }
    all.update(head).update(payload)
    if (kind === 'H') visitor.header?.(headerFrom(path, payload), payload)
    else if (kind === 'S') visitor.sealed?.(payload)
    else if (kind === 'F') {
      const name = String(parsed(path, payload).path)
      refuseOutside(path, name)
      file = { hash: newHash(), size: 0 }
      visitor.file?.(name)
    } else if (kind === 'D') {
      // a journal was one piece before, whatever its size
      const piece = orElse(undefined, () => inflateRawSync(payload, { maxOutputLength: MOST }))
      if (!piece) throw damaged()
      file!.hash.update(piece)
      file!.size += piece.length
      visitor.piece?.(piece)
    } else {
      const end = parsed(path, payload)
      if (end.sha256 !== file!.hash.digest('hex') || end.size !== file!.size) throw damaged()
      total.files++
      total.bytes += file!.size
      file = undefined
      visitor.fileEnd?.()
    }
    at += 5 + length
    yield
  }
}
