// Suggestions for a typed word: the known name with the smallest edit distance.
// Written by hand, reasons in docs/dependencies.md.

/** Edit distance; two adjacent letters in the wrong order are one mistake. */
function distance(a: string, b: string): number {
  let above: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, k) => k)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
      if (j > 1 && i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        next[j] = Math.min(next[j]!, above[j - 2]! + 1)
    }
    above = row
    row = next
  }
  return row[b.length]!
}

/** The known name most similar to the typed one, or undefined if none is similar. */
export function nearest(typed: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  // half of a short word may differ by accident (foo is not log), so short words allow fewer mistakes
  let least = Math.max(typed.length < 2 ? 0 : typed.length < 5 ? 1 : 2, Math.floor(typed.length / 3)) + 1
  for (const name of known) {
    const d = distance(typed.toLowerCase(), name.toLowerCase())
    if (d < least) {
      least = d
      best = name
    }
  }
  return best
}
