// Damage found while the log is open: records it in the ledger, logs it, repairs the file. Nothing here throws; what cannot
// be repaired now stays unchanged and readers skip it.
import { counted, rangesText } from '../lib/counted'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { Ledger } from './ledger'
import { prune, quarantine, rewrite } from './mend'
import type { LossRange } from './record'
import type { RecoveryFinding } from './recovery'
import type { Retention } from './retention'
import { scanSegment } from './segment'
import type { Segment, Segments } from './segments'

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
