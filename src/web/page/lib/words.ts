// Words of a command line: quoted, so that a value of a device never becomes two words or a quote of its own.

/** One word of a command line, as the gateway's parser takes it. */
export const quote = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
