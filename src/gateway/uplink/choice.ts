// Which uplink carries (D6): the first of the list that is usable. A worse one takes over when every better one has been
// away for a while, so that a short loss moves nothing; a better one gets it back when it was stable for longer. Pure.

export interface Candidate {
  readonly name: string
  /** open, and the peer answers */
  readonly usable: boolean
  /** mono ms of the last change of `usable` */
  readonly since: number
}

export interface ChoiceTimes {
  /** how long a better one must have been away */
  afterMs: number
  /** how long a better one must have been there before it gets it back */
  backMs: number
}

export interface Choice {
  /** who carries from now on; null: nobody can */
  readonly name: string | null
  /** when to choose again, in mono ms; Infinity: at the next change */
  readonly next: number
}

/** `current` carries now (null: nobody did yet); it keeps carrying while nobody may take over, usable or not. */
export function choose(
  list: readonly Candidate[],
  current: string | null,
  now: number,
  { afterMs, backMs }: ChoiceTimes,
): Choice {
  const at = list.findIndex(({ name }) => name === current)
  const carrying = list[at]
  const first = list.findIndex(({ usable }) => usable)
  if (first < 0 || first === at) return { name: carrying?.name ?? null, next: Number.POSITIVE_INFINITY }
  const best = list[first]!
  if (carrying?.usable && first < at) {
    const back = best.since + backMs
    return back <= now ? { name: best.name, next: Number.POSITIVE_INFINITY } : { name: carrying.name, next: back }
  }
  // nobody carries now: a better one begins at once, a worse one when all before it have been away long enough
  const away = list.slice(0, first).map(({ since }) => since + afterMs)
  const take = at >= 0 && first < at ? now : Math.max(now, ...away)
  if (take <= now) return { name: best.name, next: Number.POSITIVE_INFINITY }
  return { name: carrying?.name ?? null, next: take }
}
