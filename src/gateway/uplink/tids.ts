// The TIDs a run may use (decision 0016): a new run starts with TIDs that the last one did not use, so that a DIFF of this run never
// meets a template of the last. The counter must therefore be on flash before a frame of a new template is sent; it is stored
// some TIDs ahead, so that several templates need one commit only. After 199 TIDs are reused anyway, and the encoder sends
// FULL only until one is acknowledged, so nothing needs to be stored.
//
// After a restore the counters are those of the backup, and the run that continued from there used more TIDs: every AID
// starts after 199 then (RESTORED_TIDS).
//
// Errors: while the log cannot be written (R30) no counter can be stored, and records are still sent (R3). The AID continues
// at a random TID after 199, so that a receiver does not mistake its frames for those of an earlier run. A failed commit is
// requested again.
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { FlashLog } from '../../log'

const AHEAD = 8
const OWN_TIDS = 199
/** counter of the log: the lowest TID since the state was restored from a backup */
const RESTORED_TIDS = 'tids:restored'

/** No AID reuses an own TID that the state before the restore may have used. */
export const skipRestoredTids = (log: Pick<FlashLog, 'appendCounter'>, random = Math.random): void =>
  void log.appendCounter(RESTORED_TIDS, OWN_TIDS + 1 + Math.floor(random() * OWN_TIDS))

interface Kept {
  durable: number
  /** being written to flash; 0: nothing is */
  requested: number
}

/** What the counters need of an encoder. */
interface TidUser {
  readonly aid: number
  readonly nextTid: number
  /** the next template gets this TID, or a later one if the counter is already past it */
  skipTids(to: number): void
}

type TidLog = Pick<FlashLog, 'counter' | 'appendCounter' | 'committed' | 'degraded'>

export class TidCounters {
  readonly #name: string
  readonly #log: TidLog
  readonly #logger: Logger
  readonly #changed: () => void
  readonly #kept = new Map<number, Kept>()

  readonly #random: () => number

  /** `changed`: a counter reached the flash. */
  constructor(name: string, log: TidLog, logger: Logger, changed: () => void, random = Math.random) {
    this.#random = random
    this.#name = name
    this.#log = log
    this.#logger = logger
    this.#changed = changed
  }

  /** The first TID this run may use for that AID. */
  first(aid: number): number {
    return Math.max(this.#log.counter(this.#key(aid)) ?? 1, this.#log.counter(RESTORED_TIDS) ?? 1)
  }

  /** Whether that AID's TIDs are counted in the log: it is one of ours. */
  keeps(aid: number): boolean {
    return this.#kept.has(aid)
  }

  /** True if the encoder may make a new template now; otherwise the counter is being written and `changed` follows. */
  ready(encoder: TidUser): boolean {
    const { aid, nextTid } = encoder
    let kept = this.#kept.get(aid)
    if (!kept) {
      kept = { durable: this.first(aid), requested: 0 }
      this.#kept.set(aid, kept)
    }
    if (nextTid < kept.durable || kept.durable > OWN_TIDS) return true
    if (this.#log.degraded) return this.#jump(encoder, kept)
    if (kept.requested === 0) this.#request(aid, kept, nextTid + AHEAD)
    return false
  }

  /** A clean stop: the next run continues right after the used TIDs. */
  keep(encoders: Iterable<TidUser>): void {
    for (const { aid, nextTid } of encoders)
      if (this.#kept.has(aid) && this.#log.counter(this.#key(aid)) !== nextTid)
        this.#log.appendCounter(this.#key(aid), nextTid)
  }

  /** The counter of the next run is on flash once the disk works again. */
  #jump(encoder: TidUser, kept: Kept): true {
    encoder.skipTids(OWN_TIDS + 1 + Math.floor(this.#random() * OWN_TIDS))
    kept.durable = encoder.nextTid
    this.#log.appendCounter(this.#key(encoder.aid), encoder.nextTid)
    return true
  }

  #request(aid: number, kept: Kept, value: number): void {
    kept.requested = value
    this.#log.committed(this.#log.appendCounter(this.#key(aid), value)).then(
      () => {
        kept.durable = Math.max(kept.durable, value)
        kept.requested = 0
        this.#changed()
      },
      error => {
        kept.requested = 0
        this.#logger.warn(`the TID counter could not be saved: ${asOsError(error).message}`)
      },
    )
  }

  #key(aid: number): string {
    return `tid:${this.#name}:${aid}`
  }
}
