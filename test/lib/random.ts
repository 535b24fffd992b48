// Shared by property tests: a random number generator, and the number of rounds.

/** Whether `npm run test:long` runs this file (it has a line `// Long: REASON`). */
export const LONG = Boolean(process.env.OS_NODE_LONG)

/** OS_NODE_LONG=quarter, as in `.ci/run`: `npm run test:long` runs a quarter of the rounds, boots, faults and minutes. */
export const QUARTER = process.env.OS_NODE_LONG === 'quarter'

/** Which part a quarter run takes of what runs in turns: `all[TURN % all.length]`; chosen by the commit (test/turn.mjs). */
export const TURN = Number(process.env.OS_NODE_TURN ?? 0)

/** Rounds of a property: `usual` in `npm test`, `long` in `npm run test:long` (the file has a line `// Long: REASON`). */
export function rounds(usual: number, long: number): number {
  if (!LONG) return usual
  if (!QUARTER) return long
  return long > usual ? Math.max(usual, long / 4) : Math.min(usual, long * 4)
}

/** Numbers from 0 to below 1, determined by a seed, so that a failing property test can be repeated. */
export function prng(seed: number): () => number {
  let a = seed >>> 0
  return () => {
    a = (a + 0x6d2b79f5) >>> 0
    let t = Math.imul(a ^ (a >>> 15), a | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
