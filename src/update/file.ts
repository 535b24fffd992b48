// The update file: a signed list of chunks, then each chunk once.
//
//   "OSNUPD1\n" | u32 length of the list | list (JSON) | signature (Ed25519, 64 bytes) of everything before it | chunks
//
// The list contains board, version and build time, and for each part (boot, root) its size, its SHA-256 and its chunks in
// order. Nothing of the list is used before its signature is verified, and each chunk is verified by its hash.
// Errors: E_UPDATE (not an update, truncated, wrong signature, another board, older, too large).
import { createHash, createPublicKey, type KeyLike, sign, verify } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { OsError } from '../lib/errors'
import { chunksOf } from './chunks'

const MAGIC = 'OSNUPD1\n'
const HEAD = MAGIC.length + 4
const SIGNATURE = 64
const LIST_MAX = 2 ** 20
const RECORD = 36

export type PartName = 'boot' | 'root'

interface ListedPart {
  readonly name: PartName
  readonly size: number
  readonly sha256: string
  /** 36 bytes per chunk, base64: SHA-256 and u32 length */
  readonly chunks: string
}

/** The metadata of an update. */
export interface UpdateList {
  readonly board: string
  readonly version: string
  /** UNIX seconds */
  readonly built_at: number
  /** position of the root partition's digit in the boot part, which differs between slots */
  readonly partition_at: number
  readonly parts: readonly ListedPart[]
}

export interface WantedChunk {
  readonly sha256: string
  readonly size: number
  /** bytes from the start of the part */
  readonly at: number
  /** bytes from the start of the update file */
  readonly from: number
}

export interface UpdatePart {
  readonly name: PartName
  readonly size: number
  readonly sha256: string
  readonly chunks: readonly WantedChunk[]
}

export interface Update {
  readonly list: UpdateList
  readonly parts: readonly UpdatePart[]
  /** bytes of the update file */
  readonly size: number
}

/** Reads `length` bytes from `at` on; rejects if the file is shorter. */
export type ReadAt = (at: number, length: number) => Promise<Buffer>

const refuse = (message: string, hint?: string): OsError => new OsError('E_UPDATE', message, hint ? { hint } : {})

/** Reads the header of an update that was signed with one of `keys` (concatenated PEM). Throws E_UPDATE. */
export async function readUpdate(read: ReadAt, keys: string): Promise<Update> {
  const head = await read(0, HEAD)
  if (head.toString('latin1', 0, MAGIC.length) !== MAGIC) throw refuse('this is not an os-node update')
  const length = head.readUInt32BE(MAGIC.length)
  if (length > LIST_MAX) throw refuse('this is not an os-node update: its list is too long')
  const remaining = await read(HEAD, length + SIGNATURE)
  const signed = Buffer.concat([head, remaining.subarray(0, length)])
  const signature = remaining.subarray(length)
  const known = (keys.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g) ?? []).map(createPublicKey)
  if (known.length === 0)
    throw refuse(
      'this image has no key for updates',
      'build the image with --sign KEY, or write the new image to the card',
    )
  if (!known.some(key => verify(null, signed, key, signature)))
    throw refuse('the update was not signed with a key of this image', 'download the update again')
  const list = JSON.parse(remaining.toString('utf8', 0, length)) as UpdateList
  return { list, ...layOut(list, HEAD + length + SIGNATURE) }
}

/** The position of each chunk in the file: in the order of first use. */
function layOut(list: UpdateList, begin: number): Pick<Update, 'parts' | 'size'> {
  const places = new Map<string, number>()
  let end = begin
  const parts = list.parts.map(({ name, size, sha256, chunks: packed }) => {
    const records = Buffer.from(packed, 'base64')
    const chunks: WantedChunk[] = []
    let at = 0
    for (let record = 0; record < records.length; record += RECORD) {
      const hash = records.toString('hex', record, record + 32)
      const length = records.readUInt32BE(record + 32)
      if (!places.has(hash)) {
        places.set(hash, end)
        end += length
      }
      chunks.push({ sha256: hash, size: length, at, from: places.get(hash)! })
      at += length
    }
    if (at !== size) throw refuse(`the list of the update names ${at} bytes of ${name}, and its size as ${size}`)
    return { name, size, sha256, chunks }
  })
  return { parts, size: end }
}

/** Whether `a` is newer than `b`: by version number, then by build time. */
export function isNewer(
  a: Pick<UpdateList, 'version' | 'built_at'>,
  b: Pick<UpdateList, 'version' | 'built_at'>,
): boolean {
  const [left, right] = [a, b].map(({ version }) => /^([^+-]*)(?:-([^+]*))?/.exec(version)!)
  const [numbers, others] = [left, right].map(parts =>
    parts![1]!.split('.').map(part => Number.parseInt(part, 10) || 0),
  )
  for (let k = 0; k < Math.max(numbers!.length, others!.length); k++) {
    const difference = (numbers![k] ?? 0) - (others![k] ?? 0)
    if (difference !== 0) return difference > 0
  }
  const [suffix, other] = [left![2], right![2]]
  if (suffix !== other)
    return !suffix || (other !== undefined && suffix.localeCompare(other, 'en', { numeric: true }) > 0)
  return a.built_at > b.built_at
}

/** Writes the update file `to` from the files of its parts, signed with the private key; returns its size in bytes. */
export function writeUpdate(
  to: string,
  about: Omit<UpdateList, 'parts'>,
  files: Readonly<Record<PartName, string>>,
  key: KeyLike,
): number {
  const out = openSync(to, 'w')
  const opened = Object.entries(files).map(([name, path]) => ({ name: name as PartName, fd: openSync(path, 'r') }))
  try {
    const first = new Map<string, { fd: number; at: number; size: number }>()
    const parts = opened.map(({ name, fd }): ListedPart => {
      const size = fstatSync(fd).size
      const whole = createHash('sha256')
      const records: Buffer[] = []
      for (const { sha256, at, bytes } of chunksOf(fd, 0, size)) {
        whole.update(bytes)
        const length = Buffer.alloc(4)
        length.writeUInt32BE(bytes.length)
        records.push(sha256, length)
        const hash = sha256.toString('hex')
        if (!first.has(hash)) first.set(hash, { fd, at, size: bytes.length })
      }
      return { name, size, sha256: whole.digest('hex'), chunks: Buffer.concat(records).toString('base64') }
    })
    const text = Buffer.from(JSON.stringify({ ...about, parts }))
    const head = Buffer.alloc(HEAD)
    head.write(MAGIC, 'latin1')
    head.writeUInt32BE(text.length, MAGIC.length)
    const signed = Buffer.concat([head, text])
    let end = writeSync(out, Buffer.concat([signed, sign(null, signed, key)]))
    for (const { fd, at, size } of first.values()) {
      const bytes = Buffer.alloc(size)
      readSync(fd, bytes, 0, size, at)
      end += writeSync(out, bytes)
    }
    return end
  } finally {
    for (const { fd } of opened) closeSync(fd)
    closeSync(out)
  }
}
