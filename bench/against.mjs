// `npm run bench -- --against FILE`: an earlier run (its --json file) beside this one. Rates are of the machine and its neighbours, so they are
// printed alone; what is counted holds on any machine, and more of it than before is a regression.

/** what is counted, and how much of it counts as the same: a share, and what a single figure may be off by */
const COUNTED = [
  { keys: /^heap_bytes_per_packet\/|^udp\/.*\/heap_bytes_per_packet$/, share: 0.05, most: 8 },
  // what a whole gateway does besides is in it
  { keys: /^(gateway|medium)\/heap_bytes_per_packet\//, share: 0.2, most: 500 },
  { keys: /^(bytes_per_packet|bytes_per_reading)\//, share: 0.005, most: 0.01 },
  { keys: /^growth\/readings\/\d+\/bytes$/, share: 0.005, most: 1 },
  { keys: /^flash_bytes_per_reading\//, share: 0.1, most: 4 },
  { keys: /(^|\/)bytes_per_(id|device)$/, share: 0.05, most: 4 },
  { keys: /^instructions_per_packet\//, share: 0.02, most: 10 },
  { keys: /\/syscalls_per_packet$/, share: 0.1, most: 0.05 },
  { keys: /(^|\/)wakeups_per_s(\/|$)/, share: 0.2, most: 1 },
]

/**
 * `before` and `now`: key → figure; `due(key)`: whether this run measures it. Returns `lines` for people, a ratio for each key of both
 * (now ÷ before), and `problems`: what is counted and has become more, or should have been counted and was not.
 */
export function against(before, now, due = () => true) {
  const lines = []
  const problems = []
  for (const [key, value] of Object.entries(now)) {
    const known = before[key]
    if (typeof known !== 'number' || typeof value !== 'number') continue
    lines.push(
      `  ${key.padEnd(46)} ${(known === 0 ? (value === 0 ? 1 : Number.POSITIVE_INFINITY) : value / known).toFixed(2).padStart(8)} ×`,
    )
    const counted = COUNTED.find(({ keys }) => keys.test(key))
    // not `>`: what is no number is no count
    if (counted && !(value <= known + Math.max(counted.most, counted.share * known)))
      problems.push(`${key}: ${value}, and it was ${known}`)
  }
  for (const [key, known] of Object.entries(before))
    if (!(key in now) && due(key) && COUNTED.some(({ keys }) => keys.test(key)))
      problems.push(`${key}: not measured by this run, and it was ${known}`)
  return { lines, problems }
}
