// Detects memory leaks. The engine, its compiler and the C library allocate at irregular times, especially on a busy machine;
// a leak grows with every round.

/** The smallest growth of the process in MiB over several rounds; stops early once it is below `enough`. */
export async function leastGrowth(turn: () => Promise<void>, enough: number, turns = 6): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let k = 0; k < turns && least >= enough; k++) {
    const before = process.memoryUsage.rss()
    await turn()
    least = Math.min(least, (process.memoryUsage.rss() - before) / 1048576)
  }
  return least
}
