// The contents of a DBC file (frames and signals), as the codec and the source use it. Types and bounds only.

/** `standard` ids have 11 bits, the others 29 */
type FrameFormat = 'standard' | 'extended' | 'j1939'
export type NumberFormat = 'unsigned' | 'signed' | 'float' | 'double'

export interface DbcSignal {
  readonly name: string
  /** as numbered in the file: the least significant bit (little endian) or the most significant (big endian) */
  readonly start: number
  readonly length: number
  readonly bigEndian: boolean
  format: NumberFormat
  readonly factor: number
  readonly offset: number
  /** limits of the scaled value; both 0 if the file sets none */
  readonly min: number
  readonly max: number
  /** as written in the file */
  readonly unit: string
  /** selects which of the other signals are present */
  readonly isSwitch: boolean
  /** present only while the switch has one of these values; undefined: always */
  when: { of: string; ranges: readonly (readonly [from: number, to: number])[] } | undefined
  /** names of raw values */
  values: ReadonlyMap<number, string> | undefined
}

export interface DbcMessage {
  /** without flag bits */
  readonly id: number
  format: FrameFormat
  readonly name: string
  /** bytes; more than 8 means CAN FD or, for J1939, several frames */
  readonly length: number
  readonly signals: DbcSignal[]
}

export interface Dbc {
  readonly messages: readonly DbcMessage[]
  /** skipped lines with the reason, one text each, at most `MAX_PROBLEMS` */
  readonly problems: readonly string[]
}

export const MAX_PROBLEMS = 50
/** the longest message of J1939's transport protocol */
export const MAX_BYTES = 1785
