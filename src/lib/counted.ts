// A count with its noun for texts: "1 record", "2 records", "0 crashes", "3 entries".

/** The noun (a phrase whose last word is an English noun with a regular plural) in the form for the count. */
export const plural = (count: number, noun: string): string => {
  if (count === 1) return noun
  if (/(?:s|x|ch|sh)$/.test(noun)) return `${noun}es`
  return /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`
}

export const counted = (count: number, noun: string): string => `${count} ${plural(count, noun)}`

/** The sequence numbers of ranges as text. */
export const rangesText = (ranges: readonly { readonly from: number; readonly to: number }[]): string =>
  ranges.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`)).join(', ')
