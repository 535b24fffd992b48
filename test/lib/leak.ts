// Memory that is not released. Allocations of the engine, its compiler and the C library happen at irregular times, more so
// on a busy machine; a leak happens in every round.

/** The growth of the process in MiB in the round of a few that grew least; no more rounds once that is below `enough`. */
export async function leastGrowth(turn: () => Promise<void>, enough: number, turns = 6): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let k = 0; k < turns && least >= enough; k++) {
    const before = process.memoryUsage.rss()
    await turn()
    least = Math.min(least, (process.memoryUsage.rss() - before) / 1048576)
  }
  return least
}
