// Damage found while the log is open: records it in the ledger, logs it, repairs the file. Nothing here throws; what cannot
// be repaired now stays unchanged and readers skip it.
//
// A repair copies the damaged pieces to `damaged/`, then rewrites the file without them (or truncates it, if only its end is
// damaged). The caller ensures that the ledger is on flash first. If the disk refuses, the file stays unchanged, and the next
// start tries again.
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { counted, rangesText } from '../lib/counted'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import { type Ledger, noLosses } from './ledger'
import type { LossRange } from './record'
import type { RecoveryFinding } from './recovery'
import type { Retention } from './retention'
import { decodeHeader, encodeHeader, scanSegment } from './segment'
import { onMedium, type Segment, type Segments } from './segments'

interface RepairOptions {
  files: Files
  dir: string
  logger: Logger
  segments: Segments
  retention: Retention
  ledger: Ledger
  boot: number
  /** maximum bytes of damaged pieces to keep */
  damagedBytes: number
}

/** ranges named in one line of the log */
const LISTED = 10
const DAMAGED = 'damaged'

/** Copies the damaged pieces; at most `cap` bytes are kept, newest first. Returns the bytes now kept. */
function quarantine(files: Files, dir: string, { segment, bytes, scan }: RecoveryFinding, cap: number): number {
  const damagedDir = join(dir, DAMAGED)
  const pieces = scan.pieces.map(piece => ({ offset: piece.offset, length: piece.length }))
  const head = decodeHeader(bytes)
  if (!head && scan.pieces[0]?.offset !== 0) pieces.push({ offset: 0, length: scan.sound[0] ?? bytes.length })
  files.mkdir(damagedDir)
  for (const { offset, length } of pieces) {
    const piece = bytes.subarray(offset, offset + Math.min(length, cap))
    if (piece.length === 0 || !piece.some(byte => byte !== 0)) continue
    atomicWrite(join(damagedDir, `${segment.name}-${String(offset).padStart(9, '0')}.bin`), piece, files)
  }
  return prune(files, dir, cap)
}

/** The space of the kept pieces on the medium, after the oldest beyond `cap` were removed. */
function prune(files: Files, dir: string, cap = Number.POSITIVE_INFINITY): number {
  const damagedDir = join(dir, DAMAGED)
  if (!files.exists(damagedDir)) return 0
  const kept = files
    .list(damagedDir)
    .sort()
    .map(name => ({ path: join(damagedDir, name), size: onMedium(files.size(join(damagedDir, name))) }))
  let total = kept.reduce((sum, piece) => sum + piece.size, 0)
  for (const piece of kept) {
    if (total <= cap) break
    files.remove(piece.path)
    total -= piece.size
  }
  return total
}

/** Rewrites the segment with its intact records only. Returns its new size, 0 if none was left and the file was removed. */
function rewrite(files: Files, finding: RecoveryFinding, boot: number, previousLast: number): number {
  const { segment, bytes, scan } = finding
  if (scan.records === 0) {
    files.remove(segment.path)
    return 0
  }
  const head = decodeHeader(bytes)
  const cut = scan.sound[1]!
  if (head && scan.sound.length === 2 && scan.sound[0] === head.length) {
    if (cut < bytes.length) files.truncate(segment.path, cut)
    return cut
  }
  const header = head
    ? bytes.subarray(0, head.length)
    : encodeHeader({
        boot: scan.boot || boot,
        base: segment.base,
        previousLast,
        created: segment.created,
        snapshot: { cursors: {}, totals: noLosses(), ranges: [], segments: [], partial: true },
      })
  const parts: Uint8Array[] = [header]
  for (let k = 0; k < scan.sound.length; k += 2) parts.push(bytes.subarray(scan.sound[k], scan.sound[k + 1]))
  const whole = Buffer.concat(parts)
  atomicWrite(segment.path, whole, files)
  segment.headerLength = header.length
  return whole.length
}

export class DamageRepair {
  readonly #o: RepairOptions

  constructor(options: RepairOptions) {
    this.#o = options
  }

  /** Updates the space used by the kept pieces. */
  look(): void {
    const { files, dir, retention, logger } = this.#o
    try {
      retention.damagedBytes = prune(files, dir)
    } catch (error) {
      logger.warn(`the kept pieces of damaged segments cannot be read: ${asOsError(error).message}`)
    }
  }

  /** Scans a segment that a reader could not read and corrects its properties; undefined if it cannot be read at all. */
  inspect(segment: Segment): RecoveryFinding | undefined {
    const { files, logger, segments } = this.#o
    try {
      const bytes = files.exists(segment.path) ? files.read(segment.path) : Buffer.alloc(0)
      const scan = scanSegment(bytes, { base: segment.base, limit: segment.last + 1, knownLast: segment.last })
      if (segment !== segments.active) {
        segment.facts = scan.facts
        segment.lastFact = scan.lastFact
        segment.last = scan.last
      }
      return { segment, bytes, scan }
    } catch (error) {
      logger.warn(`segment ${segment.name} cannot be read: ${asOsError(error).message}`)
      return undefined
    }
  }

  /** Records the damage of a scan in the ledger; returns the new ranges. */
  enter({ scan }: RecoveryFinding): LossRange[] {
    return scan.pieces.flatMap(piece =>
      piece.to >= piece.from ? this.#o.ledger.add(piece.torn ? 'torn' : 'damaged', piece.from, piece.to) : [],
    )
  }

  /**
   * Logs one line for all unexpected losses; a torn end is expected after a crash. `openEnd`: the range that ends there may
   * contain more records.
   */
  warn(fresh: readonly LossRange[], openEnd?: number): void {
    const name = (range: LossRange): string => (range.to === openEnd ? `${range.from} and later` : rangesText([range]))
    const names = fresh.filter(r => r.reason !== 'torn').map(name)
    if (names.length === 0) return
    const more = names.length > LISTED ? ` and ${counted(names.length - LISTED, 'more range')}` : ''
    const text = names.slice(0, LISTED).join(', ') + more
    this.#o.logger.warn(`the log is damaged: records ${text} are lost; check the card, and see log.gaps in the status`)
  }

  /** Keeps the damaged pieces and rewrites the segment without them. */
  mend(finding: RecoveryFinding): void {
    const { files, dir, segments, retention, logger, boot, damagedBytes } = this.#o
    const { segment } = finding
    const at = segments.list.indexOf(segment)
    try {
      // the limits dropped it since: a rewrite would bring its file back, which nothing counts
      if (at < 0 && !files.exists(segment.path)) return
      retention.damagedBytes = quarantine(files, dir, finding, damagedBytes)
      const size = rewrite(files, finding, boot, segments.list[at - 1]?.last ?? 0)
      if (at < 0) return
      if (size === 0) segments.remove(segment)
      else segments.resized(segment, size)
    } catch (error) {
      logger.warn(`segment ${segment.name} could not be repaired: ${asOsError(error).message}`)
    }
  }

  /** Removes an empty segment. */
  discard(segment: Segment): void {
    try {
      this.#o.files.remove(segment.path)
    } catch (error) {
      this.#o.logger.warn(`${segment.name} could not be removed: ${asOsError(error).message}`)
    }
  }
}
