// The time on the air of a packet (SX1276 data sheet 4.1.1.6 and 4.1.1.7). Pure; no errors.

export interface AirSettings {
  spreadingFactor: number
  bandwidthHz: number
  /** 1 to 4: 4/5 to 4/8 */
  codingRate: number
  preambleSymbols: number
  implicitHeader: boolean
  crc: boolean
  lowDataRate: boolean
}

/** Duration of one symbol, ms. */
export const symbolMs = (spreadingFactor: number, bandwidthHz: number): number =>
  (2 ** spreadingFactor * 1000) / bandwidthHz

/** Milliseconds on the air of `bytes` of payload. */
export function airtimeMs(bytes: number, of: AirSettings): number {
  const { spreadingFactor: sf, codingRate } = of
  const bits = 8 * bytes - 4 * sf + 28 + (of.crc ? 16 : 0) - (of.implicitHeader ? 20 : 0)
  const groups = Math.max(0, Math.ceil(bits / (4 * (sf - (of.lowDataRate ? 2 : 0)))))
  const symbols = of.preambleSymbols + 4.25 + 8 + groups * (codingRate + 4)
  return symbols * symbolMs(sf, of.bandwidthHz)
}

/** Size in bytes of the largest packet (at most `most`) whose time on the air is at most `ms`; 0: not even an empty one. */
export function bytesWithin(ms: number, of: AirSettings, most = 255): number {
  let bytes = most
  while (bytes > 0 && airtimeMs(bytes, of) > ms) bytes--
  return bytes
}
