// Marks of the codec that are gated: ratios within one run whose worst of several runs on a busy machine was at least 1.2 times the mark
// (docs/performance.md). The other marks are printed only.

/** `key` is at least `times` of `than`, where a run has both */
const RATIOS = [
  { key: 'decode/full/1/rscore', times: 0.5, than: 'encode/full/1/pycore' },
  { key: 'decode/full/4/rscore', times: 0.5, than: 'encode/full/4/pycore' },
  { key: 'decode/diff/16/rscore', times: 1, than: 'peer/msgpackr/decode/16' },
  { key: 'decode/diff/16/rscore', times: 1, than: 'peer/cbor-x/decode/16' },
]

/** `notes`: key → note of the table, which gets the gates; returns the problems. */
export function ratioProblems(results, notes) {
  const problems = []
  for (const { key, times, than } of RATIOS) {
    if (!(key in results && than in results)) continue
    const gate = `gate ≥ ${times} × ${than}`
    notes.set(key, notes.has(key) ? `${notes.get(key)}, ${gate}` : gate)
    // not `<`: NaN must be a problem too
    if (!(results[key] >= times * results[than]))
      problems.push(`${key}: ${results[key]} is under ${times} × ${than}, which is ${results[than]}`)
  }
  return problems
}
