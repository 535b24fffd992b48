// A count with its noun for texts that people read: "1 record", "2 records", "0 crashes", "3 entries".

/** The count and its noun (a phrase whose last word is an English noun with a regular plural). */
export const counted = (count: number, noun: string): string =>
  `${count} ${
    count === 1
      ? noun
      : /(?:s|x|ch|sh)$/.test(noun)
        ? `${noun}es`
        : /[^aeiou]y$/.test(noun)
          ? `${noun.slice(0, -1)}ies`
          : `${noun}s`
  }`
