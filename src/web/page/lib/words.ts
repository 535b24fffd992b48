// Words of a command line: quoted, so that a value of a device never becomes two words or a quote of its own.

/** A line as its words; blanks within quotes belong to a word. */
export const wordsOf = (line: string): string[] =>
  (line.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? []).map(word => word.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'))

/** One word of a command line, as the gateway's parser takes it. */
export const quote = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
