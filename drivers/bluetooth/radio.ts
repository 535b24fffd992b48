// What the Bluetooth driver needs of a radio: to scan, to be reset, to connect. One implementation uses noble
// (noble.ts); tests bring their own.

export type AddressType = 'public' | 'random'

/** One advertisement as it was heard. Valid during the call only. */
export interface Report {
  /** `a4:c1:38:8d:18:b2` */
  readonly address: string
  readonly addressType: AddressType
  /** its structures; see ad.ts */
  readonly data: Uint8Array
  /** dBm; null: the radio does not tell */
  readonly rssi: number | null
}

export interface RadioEvents {
  report(report: Report): void
  /** the adapter is gone or switched off; nothing more comes of this opening */
  lost(reason: string): void
  /** another program stopped the scan, or reset the adapter */
  disturbed(what: 'scan stopped' | 'adapter reset'): void
}

/** The characteristics of a byte stream over GATT, as UUIDs of 32 hex digits. */
export interface StreamService {
  readonly service: string
  /** written by us */
  readonly write: string
  /** notified by the peer */
  readonly notify: string
}

export interface BleConnection {
  /** bytes of one write or notification and its three of header */
  readonly mtu: number
  /** dBm at the last query; null: not known */
  readonly rssi: number | null
  /** how the peer lets us write */
  readonly writes: { readonly withResponse: boolean; readonly withoutResponse: boolean }
  /** At most mtu - 3 bytes; in order. Rejects when the connection is lost. */
  write(bytes: Uint8Array, withResponse: boolean): Promise<void>
  disconnect(): void
}

export interface ConnectOptions {
  address: string
  addressType: AddressType
  rssi: number | null
  stream: StreamService
  /** until the stream is there */
  timeoutMs: number
  mtu: number
  onData: (chunk: Uint8Array) => void
  /** once, also for a disconnect of ours */
  onLost: (reason: string) => void
}

export interface Radio {
  /** Takes the adapter. Throws an OsError that says what is missing and what to do. */
  open(events: RadioEvents): Promise<void>
  close(): Promise<void>
  startScan(): Promise<void>
  stopScan(): Promise<void>
  /** HCI reset: ends the scan. False: refused, since it would cut connections. */
  reset(): Promise<boolean>
  /** Throws LINK_DOWN (not reached, lost on the way), NOT_FOUND (no such service there), TIMEOUT. */
  connect(options: ConnectOptions): Promise<BleConnection>
  /** what the library could not read, by name */
  readonly detail: Readonly<Record<string, number>>
}
