// Words of a command line, quoted so that a device's value never becomes two words or breaks the quoting.

/** A line as its words; blanks in quotes do not separate words. */
export const wordsOf = (line: string): string[] =>
  (line.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? []).map(word => word.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'))

/** One word of a command line, as the gateway's parser expects it. */
export const quote = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
