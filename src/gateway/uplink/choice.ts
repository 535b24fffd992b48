// Selects the active uplink (decision 0019): the first usable one of the list. A lower one takes over after every higher one has been
// down for a while, so that a short loss changes nothing; a higher one becomes active again after it was stable for longer.
// Pure.

export interface Candidate {
  readonly name: string
  /** open, and the peer answers */
  readonly usable: boolean
  /** mono ms of the last change of `usable` */
  readonly since: number
}

interface ChoiceTimes {
  /** how long higher uplinks must be down before a lower one takes over */
  afterMs: number
  /** how long a higher uplink must be usable before it becomes active again */
  backMs: number
}

interface Choice {
  /** the active uplink from now on; null: none is usable */
  readonly name: string | null
  /** when to choose again, in mono ms; Infinity: at the next change */
  readonly next: number
}

/** `current` is the active uplink (null: none yet); it stays active, usable or not, until another may take over. */
export function choose(
  list: readonly Candidate[],
  current: string | null,
  now: number,
  { afterMs, backMs }: ChoiceTimes,
): Choice {
  const at = list.findIndex(({ name }) => name === current)
  const active = list[at]
  const first = list.findIndex(({ usable }) => usable)
  if (first < 0 || first === at) return { name: active?.name ?? null, next: Number.POSITIVE_INFINITY }
  const best = list[first]!
  if (active?.usable && first < at) {
    const back = best.since + backMs
    return back <= now ? { name: best.name, next: Number.POSITIVE_INFINITY } : { name: active.name, next: back }
  }
  // none is usable: a higher one starts immediately, a lower one after all before it have been down long enough
  const away = list.slice(0, first).map(({ since }) => since + afterMs)
  const take = at >= 0 && first < at ? now : Math.max(now, ...away)
  if (take <= now) return { name: best.name, next: Number.POSITIVE_INFINITY }
  return { name: active?.name ?? null, next: take }
}
