// What the formats of advertisements have in common. A codec is pure: bytes in, values out by name. It never throws,
// whatever the bytes are; what is no such format is `null`, what is one and cannot be used says why.

/** One value of an advertisement; null: the device says that it has none. */
export type Emit = (key: string, value: number | null) => void

/** '': values were handed on; a text: ours, but not to be used, and why; null: not of this format. */
export type Verdict = '' | (string & {}) | null

/** The format of one device: may remember what it heard (counters, repeats). */
export interface Decoder {
  /** `data`: the structures of one advertisement; `now`: monotonic ms. */
  decode(data: Uint8Array, address: string, rssi: number | null, now: number, emit: Emit): Verdict
}

/** Names of channels that every format has. */
export const COMMON_CHANNELS = [
  { key: 'rssi', unit: 'dBm' },
  { key: 'presence', unit: '1' },
] as const
