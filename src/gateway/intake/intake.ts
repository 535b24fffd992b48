// The only entry of local readings into the log, for sources, CLI and HTTP (`gateway.submit`). Readings become a fact with
// canonical units and a strictly increasing time per device (decision 0044), and the fact is logged.
//
// Errors: a row that is not a valid reading, or that no uplink can carry, is refused with its reason and counted; the other
// rows are logged (decision 0006). If no row is left, the caller gets ALL_READINGS_REFUSED or PACKET_TOO_LARGE. A log that cannot write
// keeps records in RAM and reports it in its own state.
import { counted } from '../../lib/counted'
import { OsError } from '../../lib/errors'
import type { SourceReading } from '../../links/contracts'
import type { FlashLog, RecordTimeQuality } from '../../log'
import type { RejectedRow } from '../../pipeline/core'
import type { Fact } from '../../pipeline/fact'
import type { Standardizer } from '../../pipeline/standardize'
import type { NodeClock } from '../../protocol/time'
import type { Identity } from '../identity'
import { type Cut, Groups } from './groups'

interface IntakeOptions {
  log: FlashLog
  standardizer: Standardizer
  time: NodeClock
  identity: Identity
  /** size of the largest FULL packet the uplinks carry, and the packet size of a fact */
  maxPacket: () => number
  sizeOf: (fact: Fact) => number
  onFact: (fact: Fact) => void
}

export interface SubmitOptions {
  device_id?: string
  device_status?: string
  /** UNIX seconds (or ms from 1e11 on); stamped if absent or below time_sync_threshold (decision 0044) */
  t?: number
}

/** The quality logged with a time of this node: confirmed by a time source, or not. */
export const qualityOf = (time: NodeClock): RecordTimeQuality => (time.synced ? 'synced' : 'unsynced')

export interface Submitted {
  /** log sequence numbers, one per packet of the split group */
  readonly seqs: readonly number[]
  readonly facts: readonly Fact[]
  readonly rejected: readonly RejectedRow[]
}

export class Intake {
  readonly #options: IntakeOptions
  readonly #groups: Groups
  readonly counters = { readings: 0, facts: 0, rejected_rows: 0, refused_groups: 0, unchanged: 0 }

  constructor(options: IntakeOptions) {
    this.#options = options
    this.#groups = new Groups(options.sizeOf)
  }

  /** Logs one group of readings. Throws BAD_ID, BAD_TIME, ALL_READINGS_REFUSED, PACKET_TOO_LARGE; then nothing is logged. */
  submit(rows: readonly SourceReading[], { device_id, device_status = 'ONLINE', t }: SubmitOptions = {}): Submitted {
    const { log, standardizer, time, identity, onFact } = this.#options
    const device = device_id ?? identity.deviceId
    const fact = standardizer.standardizeToFact(device, device_status, rows, {
      aid: identity.assignedId,
      ...(t !== undefined && { t }),
    })
    const refused = standardizer.lastRejected
    const limit = this.#options.maxPacket()
    const { pieces: facts, tooLarge } = this.#groups.cut(fact, limit)
    const rejected =
      tooLarge.length === 0 ? refused : [...refused, ...this.#tooLarge(fact, rows, refused, tooLarge, limit)]
    this.counters.readings += rows.length
    this.counters.rejected_rows += rejected.length
    if (rows.length > 0 && fact.sensors.length === tooLarge.length) {
      const code = tooLarge.length > 0 ? 'PACKET_TOO_LARGE' : 'ALL_READINGS_REFUSED'
      const why = tooLarge.length > 0 ? `: ${rejected.at(-1)!.reason}` : ''
      throw new OsError(code, `none of ${counted(rows.length, 'reading')} could be used${why}`, {
        details: { rejected },
      })
    }
    const stamped = t !== undefined && time.believable(t)
    const seqs = facts.map(piece => {
      // every packet of a device needs a unique time: device and time identify it
      if (!stamped) piece.tRaw = time.stamp(device)
      const seq = log.appendFact(piece, { medium: 'local' }, stamped ? 'unknown' : qualityOf(time))
      this.counters.facts++
      onFact(piece)
      return seq
    })
    return { seqs, facts, rejected }
  }

  /**
   * The intake's part of the progress token (decision 0046): a reading takes the normal path up to the log buffer and is discarded.
   * Throws if no reading would be accepted.
   */
  token(): void {
    const { standardizer, log, identity, sizeOf } = this.#options
    const fact = standardizer.standardizeToFact(identity.deviceId, 'ONLINE', [['token', 'OK', 1, 'K']], {
      aid: identity.assignedId,
    })
    if (sizeOf(fact) === 0 || Number.isNaN(log.pendingBytes))
      throw new OsError('INTERNAL', "the intake cannot make a fact of the watchdog's token")
  }

  /** Maps indexes in the fact back to input rows: the fact contains the rows in order, without the refused ones. */
  #tooLarge(
    fact: Fact,
    rows: readonly SourceReading[],
    refused: readonly RejectedRow[],
    tooLarge: Cut['tooLarge'],
    limit: number,
  ): RejectedRow[] {
    const gone = new Set(refused.map(({ index }) => index))
    const kept = rows.map((_, index) => index).filter(index => !gone.has(index))
    return tooLarge.map(({ index, bytes }) => ({
      index: kept[index] ?? index,
      code: 'PACKET_TOO_LARGE',
      reason: `sensor ${fact.sensors[index]!.id} alone may need ${bytes} bytes, the smallest uplink carries ${limit}`,
    }))
  }
}
