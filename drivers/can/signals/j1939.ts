// The 29 bits of a J1939 id (SAE J1939-21): priority, parameter group, destination, source. Pure functions.

/** The parameter group of an id. Below 240 the third byte is a destination and no part of it (PDU1), from 240 on it is. */
export function pgnOf(id: number): number {
  const pgn = (id >>> 8) & 0x3ffff
  return ((pgn >>> 8) & 0xff) < 240 ? pgn & 0x3ff00 : pgn
}

export const sourceOf = (id: number): number => id & 0xff

/** 255: everybody. */
export const destinationOf = (id: number): number => (((id >>> 16) & 0xff) < 240 ? (id >>> 8) & 0xff : 255)

/** 0 is the most urgent, 7 the least. */
export const priorityOf = (id: number): number => (id >>> 26) & 7

/** The bits of an id that name its parameter group. */
export const pgnMask = (pgn: number): number => (((pgn >>> 8) & 0xff) < 240 ? 0x3ff_0000 : 0x3ff_ff00)

/** What a raw value of J1939 says beside a number. */
export type Indicator = 'none' | 'error' | 'not_available'

/**
 * J1939-71: of a parameter of whole bytes the topmost byte FE says error, FF not available; of any other the two greatest
 * values do. One bit is a number always.
 */
export function indicatorOf(top: number, isLast: boolean, isLastButOne: boolean, bits: number): Indicator {
  if (bits < 2) return 'none'
  if (bits % 8 === 0) return top === 0xff ? 'not_available' : top === 0xfe ? 'error' : 'none'
  return isLast ? 'not_available' : isLastButOne ? 'error' : 'none'
}
