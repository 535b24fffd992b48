// `npm run bench -- --against FILE`: compares an earlier run (its --json file) with this one. Rates depend on the machine and its load, so they
// are only printed; counts are valid on any machine, and a larger count than before is a regression.

/** what is counted, and the difference that counts as equal: a share, and a tolerance for a single figure */
const COUNTED = [
  { keys: /^heap_bytes_per_packet\/|^udp\/.*\/heap_bytes_per_packet$/, share: 0.05, most: 8 },
  // what a whole gateway does besides is in it
  { keys: /^(gateway|medium)\/heap_bytes_per_packet\//, share: 0.2, most: 500 },
  { keys: /^(bytes_per_packet|bytes_per_reading)\//, share: 0.005, most: 0.01 },
  { keys: /^growth\/readings\/\d+\/bytes$/, share: 0.005, most: 1 },
  { keys: /^flash_bytes_per_reading\//, share: 0.1, most: 4 },
  { keys: /^nodes\/\d+\/written_bytes_per_packet$/, share: 0.05, most: 4 },
  // not those of SQLite; the file system's own writes are in it
  { keys: /^flash\/bytes_per_record\//, share: 0.1, most: 10 },
  { keys: /^flash\/sectors_per_record\//, share: 0.1, most: 0.02 },
  { keys: /^sql\/file_bytes_per_packet$/, share: 0.02, most: 1 },
  { keys: /(^|\/)bytes_per_(id|device)$/, share: 0.05, most: 4 },
  { keys: /^instructions_per_packet\//, share: 0.02, most: 10 },
  { keys: /\/syscalls_per_packet$/, share: 0.1, most: 0.05 },
  { keys: /(^|\/)wakeups_per_s(\/|$)/, share: 0.2, most: 1 },
]

/**
 * `before` and `now`: key → figure; `due(key)`: whether this run measures it. Returns `lines` to print, a ratio for each common key
 * (now ÷ before), and `problems`: counts that grew, or that should have been measured and were not.
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
    // not `>`: NaN must be a problem too
    if (counted && !(value <= known + Math.max(counted.most, counted.share * known)))
      problems.push(`${key}: ${value}, and it was ${known}`)
  }
  for (const [key, known] of Object.entries(before))
    if (!(key in now) && due(key) && COUNTED.some(({ keys }) => keys.test(key)))
      problems.push(`${key}: not measured by this run, and it was ${known}`)
  return { lines, problems }
}
