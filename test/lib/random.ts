// What property tests share: a source of numbers, and how many rounds they take.

/** Whether `npm run test:long` runs this file (it has a line `// Long: REASON`). */
export const LONG = Boolean(process.env.OS_NODE_LONG)

/** Rounds of a property: `usual` in `npm test`, `long` in `npm run test:long` (the file has a line `// Long: REASON`). */
export const rounds = (usual: number, long: number): number => (LONG ? long : usual)

/** Numbers from 0 to below 1 that follow from a seed alone, so that a failing property test can be run again. */
export function prng(seed: number): () => number {
  let a = seed >>> 0
  return () => {
    a = (a + 0x6d2b79f5) >>> 0
    let t = Math.imul(a ^ (a >>> 15), a | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
