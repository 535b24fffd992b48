// Checksums at the end of text lines. Pure.

/** none; nmea: `$TEXT*HH`; xor: `TEXTHH` or `TEXT*HH`, over everything before it */
export const CHECKSUMS = ['none', 'nmea', 'xor'] as const
export type Checksum = (typeof CHECKSUMS)[number]

const STAR = 0x2a
const DOLLAR = 0x24
const EXCLAMATION = 0x21

function hexDigit(c: number | undefined): number {
  if (c === undefined) return -1
  if (c >= 0x30 && c <= 0x39) return c - 0x30
  const letter = c | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/**
 * The end of a line's text before its checksum: -1 if the checksum is wrong, or missing while `required`. No bytes
 * (blanks, a carriage return) may follow the checksum.
 */
export function checkedEnd(line: Uint8Array, kind: Checksum, required = true): number {
  if (kind === 'none') return line.length
  const at = line.length - 2
  const star = line[at - 1] === STAR
  if (kind === 'nmea' && !star) return required ? -1 : line.length
  if (at < 1) return -1
  const sum = hexDigit(line[at]) * 16 + hexDigit(line[at + 1])
  const end = star ? at - 1 : at
  let xor = 0
  for (let k = kind === 'nmea' && (line[0] === DOLLAR || line[0] === EXCLAMATION) ? 1 : 0; k < end; k++) xor ^= line[k]!
  return hexDigit(line[at]) >= 0 && hexDigit(line[at + 1]) >= 0 && xor === sum ? end : -1
}
