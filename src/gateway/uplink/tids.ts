// Which TIDs a run may use (D6): a new run starts on TIDs the last one did not use, so that a DIFF of this run never meets
// a template of the last. The counter must therefore be on flash before a frame of a new template leaves; it is kept some
// TIDs ahead, so that this costs one commit for several templates. Behind 199 TIDs are used again anyway and the
// encoder sends FULL only until one is acknowledged, so nothing has to be kept any more.
//
// What fails: a log that cannot commit holds the uplink back, as it holds its records back; it is asked again.
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { FlashLog } from '../../log'

const AHEAD = 8
const OWN_TIDS = 199

interface Kept {
  durable: number
  /** on its way to the flash; 0 when nothing is */
  asked: number
}

/** What is asked of an encoder. */
export interface TidUser {
  readonly aid: number
  readonly nextTid: number
}

export class TidCounters {
  readonly #name: string
  readonly #log: Pick<FlashLog, 'counter' | 'appendCounter' | 'committed'>
  readonly #logger: Logger
  readonly #changed: () => void
  readonly #kept = new Map<number, Kept>()

  /** `changed`: a counter reached the flash. */
  constructor(
    name: string,
    log: Pick<FlashLog, 'counter' | 'appendCounter' | 'committed'>,
    logger: Logger,
    changed: () => void,
  ) {
    this.#name = name
    this.#log = log
    this.#logger = logger
    this.#changed = changed
  }

  /** The first TID this run may use for that AID. */
  first(aid: number): number {
    return this.#log.counter(this.#key(aid)) ?? 1
  }

  /** Whether that AID's TIDs are counted in the log: it is one of ours. */
  keeps(aid: number): boolean {
    return this.#kept.has(aid)
  }

  /** True when the encoder may make a new template now; otherwise the counter is on its way and `changed` follows. */
  ready(encoder: TidUser): boolean {
    const { aid, nextTid } = encoder
    let kept = this.#kept.get(aid)
    if (!kept) {
      kept = { durable: this.first(aid), asked: 0 }
      this.#kept.set(aid, kept)
    }
    if (nextTid < kept.durable || kept.durable > OWN_TIDS) return true
    if (kept.asked === 0) this.#ask(aid, kept, nextTid + AHEAD)
    return false
  }

  /** A clean stop: the next run goes on right behind what was used. */
  keep(encoders: Iterable<TidUser>): void {
    for (const { aid, nextTid } of encoders)
      if (this.#kept.has(aid) && this.#log.counter(this.#key(aid)) !== nextTid)
        this.#log.appendCounter(this.#key(aid), nextTid)
  }

  #ask(aid: number, kept: Kept, value: number): void {
    kept.asked = value
    this.#log.committed(this.#log.appendCounter(this.#key(aid), value)).then(
      () => {
        kept.durable = value
        kept.asked = 0
        this.#changed()
      },
      error => {
        kept.asked = 0
        this.#logger.warn(`the TID counter could not be kept: ${asOsError(error).message}`)
      },
    )
  }

  #key(aid: number): string {
    return `tid:${this.#name}:${aid}`
  }
}
