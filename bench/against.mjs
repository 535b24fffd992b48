// `npm run bench -- --against FILE`: an earlier run (its --json file) beside this one. Rates are of the machine and its neighbours, so they are
// printed alone; what is counted holds on any machine, and more of it than before is a regression.

/** what is counted, and how much of it counts as the same: a share, and what a single figure may be off by */
const COUNTED = [
  { keys: /^heap_bytes_per_packet\//, share: 0.05, most: 8 },
  { keys: /^(bytes_per_packet|bytes_per_reading)\//, share: 0.005, most: 0.01 },
  { keys: /^flash_bytes_per_reading\//, share: 0.1, most: 4 },
  { keys: /(^|\/)bytes_per_id$/, share: 0.05, most: 4 },
  { keys: /(^|\/)wakeups_per_s(\/|$)/, share: 0.2, most: 1 },
]

/**
 * `before` and `now`: key → figure. Returns `lines` for people, a ratio for each key of both (now ÷ before), and `problems`: what is counted
 * and has become more.
 */
export function against(before, now) {
  const lines = []
  const problems = []
  for (const [key, value] of Object.entries(now)) {
    const known = before[key]
    if (typeof known !== 'number' || typeof value !== 'number') continue
    lines.push(
      `  ${key.padEnd(46)} ${(known === 0 ? (value === 0 ? 1 : Number.POSITIVE_INFINITY) : value / known).toFixed(2).padStart(8)} ×`,
    )
    const counted = COUNTED.find(({ keys }) => keys.test(key))
    if (counted && value > known + Math.max(counted.most, counted.share * known))
      problems.push(`${key}: ${value}, and it was ${known}`)
  }
  return { lines, problems }
}
