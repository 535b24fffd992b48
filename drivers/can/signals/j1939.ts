// The 29 bits of a J1939 id (SAE J1939-21): priority, parameter group, destination, source. Pure functions.

/**
 * The parameter group of an id. Below 240 the third byte is a destination, not part of the group (PDU1); from 240 on it
 * is part of it.
 */
export function pgnOf(id: number): number {
  const pgn = (id >>> 8) & 0x3ffff
  return ((pgn >>> 8) & 0xff) < 240 ? pgn & 0x3ff00 : pgn
}

export const sourceOf = (id: number): number => id & 0xff

/** 255: broadcast. */
export const destinationOf = (id: number): number => (((id >>> 16) & 0xff) < 240 ? (id >>> 8) & 0xff : 255)

/** The bits of an id that identify its parameter group. */
export const pgnMask = (pgn: number): number => (((pgn >>> 8) & 0xff) < 240 ? 0x3ff_0000 : 0x3ff_ff00)

/** Raw values from which on a parameter has no number. */
interface Indicators {
  /** the device reports an error */
  readonly error: number
  /** the device lacks this parameter, or has no value now */
  readonly missing: number
}

/**
 * J1939-71: in a parameter of whole bytes, topmost byte FE means error, FF not available; in any other the two greatest
 * values do. One bit is always a number.
 */
export function indicators(bits: number): Indicators {
  if (bits < 2) return { error: Number.POSITIVE_INFINITY, missing: Number.POSITIVE_INFINITY }
  if (bits % 8 === 0) return { error: 0xfe * 2 ** (bits - 8), missing: 0xff * 2 ** (bits - 8) }
  return { error: 2 ** bits - 2, missing: 2 ** bits - 1 }
}
