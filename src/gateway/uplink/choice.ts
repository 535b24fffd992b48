// Which uplink is active (D6): the first of the list that is usable. A worse one takes over when every better one has been
// down for a while, so that a short loss moves nothing; a better one is active again when it was stable for longer. Pure.

export interface Candidate {
  readonly name: string
  /** open, and the peer answers */
  readonly usable: boolean
  /** mono ms of the last change of `usable` */
  readonly since: number
}

interface ChoiceTimes {
  /** how long a better one must have been down */
  afterMs: number
  /** how long a better one must have been usable before it is active again */
  backMs: number
}

interface Choice {
  /** the active uplink from now on; null: none can be */
  readonly name: string | null
  /** when to choose again, in mono ms; Infinity: at the next change */
  readonly next: number
}

/** `current` is active now (null: none was yet); it stays so, usable or not, while no other may take over. */
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
  // none works now: a better one begins at once, a worse one when all before it have been down long enough
  const away = list.slice(0, first).map(({ since }) => since + afterMs)
  const take = at >= 0 && first < at ? now : Math.max(now, ...away)
  if (take <= now) return { name: best.name, next: Number.POSITIVE_INFINITY }
  return { name: active?.name ?? null, next: take }
}
