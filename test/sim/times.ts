// The times of one gateway's readings as its own log has them. A step of its time is a record there: it corrects the readings of an unsynced
// clock before it, in the same run, up to the first step that made the time correct. An uplink takes a reading with the corrected time.

/** the gateway's clock is set back by more than this: it no longer waits for its last time (src/protocol/time.ts) */
const AHEAD_MS = 86_400_000

export class Times {
  /** the next reading is later */
  #last = 0
  /** the next step corrects that reading */
  #lastOpen = false
  /** of a reading of an unsynced clock: the steps since */
  readonly #moved = new Map<number, number>()
  /** those that the next step corrects */
  readonly #open = new Set<number>()
  /** with which times the uplinks took a reading */
  readonly #taken = new Map<number, number[]>()

  /** A start, before its log is read. */
  reset(): void {
    this.#last = 0
    this.#lastOpen = false
    this.#moved.clear()
    this.#open.clear()
  }

  /** Another run of the gateway: its steps correct nothing earlier. */
  booted(): void {
    this.#lastOpen = false
    this.#open.clear()
  }

  /** A reading is in the log; returns the time before it unless it is later. */
  logged(n: number, tRaw: number, unsynced: boolean): number | undefined {
    const before = this.#last
    this.#last = tRaw
    this.#lastOpen = unsynced
    if (unsynced) {
      this.#moved.set(n, 0)
      this.#open.add(n)
    }
    return tRaw > before || before - tRaw > AHEAD_MS ? undefined : before
  }

  /** The log has a step of the time. */
  stepped(movedMs: number, synced: boolean): void {
    for (const n of this.#open) this.#moved.set(n, this.#moved.get(n)! + movedMs)
    if (movedMs < 0 && this.#lastOpen) this.#last = Math.floor(this.#last + movedMs)
    if (!synced) return
    this.#lastOpen = false
    this.#open.clear()
  }

  /** An uplink takes a reading; returns the time that the log says, unless that is it. */
  took(n: number, raw: number, tRaw: number): number | undefined {
    const taken = this.#taken.get(n)
    if (!taken) this.#taken.set(n, [tRaw])
    else if (!taken.includes(tRaw)) taken.push(tRaw)
    const moved = this.#moved.get(n) ?? 0
    const expected = moved === 0 ? raw : Math.round(raw + moved)
    return tRaw === expected ? undefined : expected
  }

  /** The times with which it was taken. */
  taken(n: number): readonly number[] {
    return this.#taken.get(n) ?? []
  }
}
