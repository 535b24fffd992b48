// The one way into the log for what is measured here: sources, CLI and HTTP alike (`gateway.submit`). Readings become a
// fact with canonical units and a time that strictly increases for each device (D18), and the fact goes into the log.
//
// What fails: a row that is no reading, or that no uplink can carry, is refused with its reason and counted, the others go (D3); when none is left the
// caller gets ALL_READINGS_REFUSED or PACKET_TOO_LARGE; a log that cannot write keeps records in RAM and tells so in its own state.
import { counted } from '../../lib/counted'
import { OsError } from '../../lib/errors'
import type { SourceReading } from '../../links/contracts'
import type { FlashLog, TimeQuality } from '../../log'
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
  /** largest FULL packet the uplinks carry, and its size for a fact */
  maxPacket: () => number
  sizeOf: (fact: Fact) => number
  onFact: (fact: Fact) => void
}

export interface SubmitOptions {
  device_id?: string
  device_status?: string
  /** UNIX seconds (or ms from 1e11 on); stamped when left out, or below time_sync_threshold (D18) */
  t?: number
}

/** What the log says of a time of this node: confirmed by a time source, or not. */
export const qualityOf = (time: NodeClock): TimeQuality => (time.synced ? 'synced' : 'unsynced')

export interface Submitted {
  /** log sequence numbers, one per packet the group was cut into */
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

  /** Takes one group of readings. Throws BAD_ID, BAD_TIME, ALL_READINGS_REFUSED, PACKET_TOO_LARGE; nothing is kept then. */
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
      // every packet of a device has a time of its own, so that device and time name it
      if (!stamped) piece.tRaw = time.stamp(device)
      const seq = log.appendFact(piece, { medium: 'local' }, stamped ? 'unknown' : qualityOf(time))
      this.counters.facts++
      onFact(piece)
      return seq
    })
    return { seqs, facts, rejected }
  }

  /**
   * The progress token's turn here (D14): a reading goes the way of every reading up to the buffer of the log and is not
   * kept. Throws where no reading would come through.
   */
  token(): void {
    const { standardizer, log, identity, sizeOf } = this.#options
    const fact = standardizer.standardizeToFact(identity.deviceId, 'ONLINE', [['token', 'OK', 1, 'K']], {
      aid: identity.assignedId,
    })
    if (sizeOf(fact) === 0 || Number.isNaN(log.pendingBytes)) throw new OsError('INTERNAL', 'the intake takes nothing')
  }

  /** As rows: sensors are in the fact in the order they came, without those refused before. */
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
