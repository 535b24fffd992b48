// What the advertisement formats have in common. A codec is pure: bytes in, named values out. It never throws, whatever
// the bytes are: another format returns `null`; data of this format that cannot be used returns the reason.

/** One value of an advertisement; null: the device has no value for it. */
export type Emit = (key: string, value: number | null) => void

/** '': values were emitted; other text: this format, but unusable, with the reason; null: not this format. */
export type Verdict = '' | (string & {}) | null

/** The format of one device; it may keep state (counters, repeats). */
export interface Decoder {
  /** `data`: the structures of one advertisement; `now`: monotonic ms. */
  decode(data: Uint8Array, address: string, rssi: number | null, now: number, emit: Emit): Verdict
}

/** Channels that every format has. */
export const COMMON_CHANNELS = [
  { key: 'rssi', unit: 'dBm' },
  { key: 'presence', unit: '1' },
] as const
