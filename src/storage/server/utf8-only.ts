// Replaces iconv-lite, which mysql2 uses for encodings: everything here is UTF-8 or bytes, so the build leaves out its
// tables. A server's old three-byte `utf8`, used for column names, is equal for every character in such a name.
export const encodingExists = (): boolean => true
export const encode = (text: string): Buffer => Buffer.from(text)
export const decode = (bytes: Buffer): string => bytes.toString()
export const getEncoder = () => ({ write: encode, end: (): undefined => undefined })
export const getDecoder = () => ({ write: decode, end: (): string => '' })
