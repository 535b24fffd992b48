// Memory that is not given back. What the engine, its compiler and the C library take for themselves comes now and then, on a
// busy machine at odd times; what leaks comes with every turn.

/** MiB the process grew by in that of a few turns in which it grew least; no more turns once that is below `enough`. */
export async function leastGrowth(turn: () => Promise<void>, enough: number, turns = 6): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let k = 0; k < turns && least >= enough; k++) {
    const before = process.memoryUsage.rss()
    await turn()
    least = Math.min(least, (process.memoryUsage.rss() - before) / 1048576)
  }
  return least
}
