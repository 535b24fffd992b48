// What a DBC file says of frames and signals, as the codec and the source use it. Types and bounds only.

/** `standard` ids have 11 bits, the others 29 */
type FrameFormat = 'standard' | 'extended' | 'j1939'
export type NumberFormat = 'unsigned' | 'signed' | 'float' | 'double'

export interface DbcSignal {
  readonly name: string
  /** as the file counts: of the least bit (little endian), of the greatest (big endian) */
  readonly start: number
  readonly length: number
  readonly bigEndian: boolean
  format: NumberFormat
  readonly factor: number
  readonly offset: number
  /** of the scaled value; both 0 when the file bounds nothing */
  readonly min: number
  readonly max: number
  /** as the file has it */
  readonly unit: string
  /** chooses which of the other signals are there */
  readonly isSwitch: boolean
  /** there only while the switch has one of these values; undefined: always */
  when: { of: string; ranges: readonly (readonly [from: number, to: number])[] } | undefined
  /** names of raw values */
  values: ReadonlyMap<number, string> | undefined
}

export interface DbcMessage {
  /** without flags */
  readonly id: number
  format: FrameFormat
  readonly name: string
  /** bytes; more than 8 is CAN FD or, for J1939, several frames */
  readonly length: number
  readonly signals: DbcSignal[]
}

export interface Dbc {
  readonly messages: readonly DbcMessage[]
  /** what was left out and why, one line each, at most `MAX_PROBLEMS` */
  readonly problems: readonly string[]
}

export const MAX_PROBLEMS = 50
/** the longest message of J1939's transport protocol */
export const MAX_BYTES = 1785
