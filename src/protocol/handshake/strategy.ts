// Decides whether the next data packet of a device is a FULL or a DIFF (specification "States and transitions"): FULL until
// target_sync_count packets were sent, then DIFF. Entries not used in expire_seconds are dropped, so the device starts with
// FULL again. Pure over the time passed in; cannot fail.

export type PacketStrategy = 'FULL_PACKET' | 'DIFF_PACKET'

interface SyncOptions {
  targetSyncCount: number
  expireSeconds: number
  /** UNIX seconds */
  now: () => number
  /** whether a template file of that AID exists on disk; then the first packet may already be a DIFF */
  hasRegistry: (aid: number) => boolean
}

export class SyncStatus {
  readonly #options: SyncOptions
  readonly #entries = new Map<number, { count: number; last: number }>()
  #cleanedAt = 0

  constructor(options: SyncOptions) {
    this.#options = options
  }

  /** `secured`: the device has a session key, so its templates are known to exist. */
  strategy(aid: number, hasTemplate: boolean, secured: boolean): PacketStrategy {
    this.#clean()
    const { targetSyncCount, hasRegistry } = this.#options
    const entry = this.#entry(aid, () => (hasTemplate || hasRegistry(aid) ? targetSyncCount : 0))
    if (!hasTemplate) return 'FULL_PACKET'
    return secured || entry.count >= targetSyncCount ? 'DIFF_PACKET' : 'FULL_PACKET'
  }

  /** A packet of the device was sent. */
  commit(aid: number): void {
    const entry = this.#entry(aid, () => 0)
    if (entry.count < this.#options.targetSyncCount) entry.count++
  }

  #entry(aid: number, first: () => number): { count: number; last: number } {
    let entry = this.#entries.get(aid)
    if (!entry) {
      entry = { count: first(), last: 0 }
      this.#entries.set(aid, entry)
    }
    entry.last = this.#options.now()
    return entry
  }

  #clean(): void {
    const now = this.#options.now()
    const { expireSeconds } = this.#options
    if (Math.abs(now - this.#cleanedAt) < Math.max(15, Math.min(expireSeconds, 300))) return
    this.#cleanedAt = now
    for (const [aid, entry] of this.#entries) if (now - entry.last > expireSeconds) this.#entries.delete(aid)
  }
}
