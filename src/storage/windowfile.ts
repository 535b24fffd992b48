// A sealed window on flash: `<first seq>-<last seq>.window`, 16 digits each. It is written atomically (temporary file, sync,
// rename, sync of the folder) and never changed in place, so a power cut leaves the old state or the new one.
//
//   0  8  magic "OSNWIN1\n"
//   8  u32 length of the head, 12 u32 of the Bloom filter, 16 u32 of the database, 20 u32 CRC-32C of head and filter,
//  24  u32 CRC-32C of the database, 28 u32 CRC-32C of the bytes before
//  32  head: JSON, deflated; Bloom filter of the uuids; the SQLite database, deflated, then the
//      blocks of series.ts, listed in the summary and part of the database's length and checksum: older versions skip them
//
// Errors: a file with another format, or one that is truncated or changed, is a BadWindow with its name; the caller continues
// without it.
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { asOsError, OsError } from '../lib/errors'
import { crc32c } from '../wire/crc'

const MAGIC = 'OSNWIN1\n'
const HEADER = 32
const NAME = /^(\d{16})-(\d{16})\.window$/
/** fast: the CPU of a board is needed elsewhere */
const DEFLATE = { level: 3 }

/** device, status or sensor, number of rows, first and last timestamp */
export type Sum = readonly [device: string, of: string, rows: number, first: number, last: number]

/**
 * A Sum with count, min, max and mean of its values, and the first and last of its units by name. Files of older versions
 * only have the Sum.
 */
export type SensorSum = readonly [
  ...sum: Sum,
  ...values:
    | []
    | [
        count: number,
        min: number | null,
        max: number | null,
        mean: number | null,
        unit: string | null,
        other: string | null,
      ],
]

/** Values of several sensors; the first one has this index in the summary. */
export type SensorBlock = readonly [first: number, bytes: number, crc32c: number]

/** What is known of a window without its rows. */
export interface Summary {
  readonly from: number
  readonly to: number
  readonly packets: number
  /** duplicate packets in its range; absent: 0, or a file of an older version */
  readonly duplicates?: number | undefined
  /** its newest fact: if the log differs here, it is another log */
  readonly witness: { readonly seq: number; readonly boot: number; readonly wall_ms: number }
  /** boots with packets whose time is not confirmed yet */
  readonly unsynced: readonly number[]
  /** newest applied clock record */
  readonly corrected: number
  /** times were corrected: only the filter can find a uuid */
  readonly moved: boolean
  readonly statuses: readonly Sum[]
  readonly sensors: readonly SensorSum[]
  /** the last block ends the file */
  readonly series?: readonly SensorBlock[]
}

export interface SealedFile {
  readonly summary: Summary
  readonly bloom: Uint8Array
}

const digits = (seq: number): string => String(seq).padStart(16, '0')

export const windowName = (from: number, to: number): string => `${digits(from)}-${digits(to)}.window`

/** The range of a window from its name, undefined if it is invalid. */
export function windowRange(name: string): { from: number; to: number } | undefined {
  const found = NAME.exec(name)
  return found ? { from: Number(found[1]), to: Number(found[2]) } : undefined
}

/** `series`: the blocks that the summary lists. */
export function encodeWindow(
  summary: Summary,
  bloom: Uint8Array,
  database: Uint8Array,
  series: Uint8Array = new Uint8Array(0),
): Buffer {
  const head = Buffer.concat([deflateRawSync(JSON.stringify(summary), DEFLATE), bloom])
  const body = Buffer.concat([deflateRawSync(database, DEFLATE), series])
  const fixed = Buffer.alloc(HEADER)
  fixed.write(MAGIC, 0, 'latin1')
  fixed.writeUInt32LE(head.length - bloom.length, 8)
  fixed.writeUInt32LE(bloom.length, 12)
  fixed.writeUInt32LE(body.length, 16)
  fixed.writeUInt32LE(crc32c(head), 20)
  fixed.writeUInt32LE(crc32c(body), 24)
  fixed.writeUInt32LE(crc32c(fixed, 0, 28), 28)
  return Buffer.concat([fixed, head, body])
}

/** Part of a file; shorter at its end. */
type ReadAt = (offset: number, length: number) => Buffer

/** Reads lengths and checksums; throws BadWindow if `size` or the bytes do not match. */
function layout(name: string, size: number, read: ReadAt) {
  const b = read(0, HEADER)
  if (b.length < HEADER || b.toString('latin1', 0, 8) !== MAGIC || crc32c(b, 0, 28) !== b.readUInt32LE(28))
    throw new BadWindow(name, 'it has no header of a window')
  const [head, bloom, body] = [b.readUInt32LE(8), b.readUInt32LE(12), b.readUInt32LE(16)]
  if (size !== HEADER + head + bloom + body) throw new BadWindow(name, 'its length differs from its header')
  return { head, bloom, body, headCrc: b.readUInt32LE(20), bodyCrc: b.readUInt32LE(24) }
}

/** Summary and filter, without the rows. Throws BadWindow. */
export function readSealed(name: string, size: number, read: ReadAt): SealedFile {
  const { head, bloom, headCrc } = layout(name, size, read)
  const b = read(HEADER, head + bloom)
  if (crc32c(b) !== headCrc) throw new BadWindow(name, 'its summary is damaged')
  const summary = JSON.parse(inflateRawSync(b.subarray(0, head)).toString('utf8')) as Summary
  const range = windowRange(name)
  if (range?.from !== summary.from || range.to !== summary.to)
    throw new BadWindow(name, 'its records differ from its name')
  return { summary, bloom: Uint8Array.from(b.subarray(head)) }
}

/** The SQLite database in it. Throws BadWindow. */
export function readDatabase(name: string, size: number, read: ReadAt): Uint8Array {
  const { head, bloom, body, bodyCrc } = layout(name, size, read)
  const b = read(HEADER + head + bloom, body)
  if (crc32c(b) !== bodyCrc) throw new BadWindow(name, 'its rows are damaged')
  return inflateRawSync(b)
}

/**
 * The block with the values of the sensor with index `place` in the summary, and the index of its first sensor. Throws
 * BadWindow.
 */
export function readBlock(name: string, size: number, { series = [] }: Summary, place: number, read: ReadAt) {
  let at = size
  for (let k = series.length - 1; k >= 0; k--) {
    const [first, bytes, crc] = series[k]!
    at -= bytes
    if (first > place) continue
    const block = read(at, bytes)
    if (crc32c(block) !== crc) throw new BadWindow(name, 'its values are damaged')
    return { first, block }
  }
  throw new BadWindow(name, 'its values are missing')
}

/** An unusable file, whatever the cause. */
export class BadWindow extends OsError {
  constructor(
    readonly file: string,
    why: unknown,
  ) {
    super('STORAGE', `${file}: ${typeof why === 'string' ? why : asOsError(why).message}`, {
      details: { window: file },
    })
  }
}
