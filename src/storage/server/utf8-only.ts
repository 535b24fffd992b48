// In place of iconv-lite, which mysql2 asks for encodings: everything here is UTF-8 or bytes, so the build leaves out its tables. The old
// three-byte `utf8` of a server, by which it names columns, is the same for every character that such a name has.
export const encodingExists = (): boolean => true
export const encode = (text: string): Buffer => Buffer.from(text)
export const decode = (bytes: Buffer): string => bytes.toString()
export const getEncoder = () => ({ write: encode, end: (): undefined => undefined })
export const getDecoder = () => ({ write: decode, end: (): string => '' })
