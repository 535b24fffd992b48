// The operations the Bluetooth driver needs of a radio: scan, reset, connect. One implementation uses noble (noble.ts);
// tests pass their own.

export type AddressType = 'public' | 'random'

/** One received advertisement. Valid during the call only. */
export interface Report {
  /** `a4:c1:38:8d:18:b2` */
  readonly address: string
  readonly addressType: AddressType
  /** its structures; see ad.ts */
  readonly data: Uint8Array
  /** dBm; null: the radio does not report it */
  readonly rssi: number | null
}

export interface RadioEvents {
  report(report: Report): void
  /** the adapter is unplugged or switched off; this opening gets no further events */
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
  /** bytes of one write or notification plus three of header */
  readonly mtu: number
  /** dBm at the last query; null: unknown */
  readonly rssi: number | null
  /** the kinds of write that the peer allows */
  readonly writes: { readonly withResponse: boolean; readonly withoutResponse: boolean }
  /** At most mtu - 3 bytes; in order. Rejects when the connection is lost. */
  write(bytes: Uint8Array, withResponse: boolean): Promise<void>
  disconnect(): void
}

export interface BleConnectOptions {
  address: string
  addressType: AddressType
  rssi: number | null
  stream: StreamService
  /** time limit until the stream is open */
  timeoutMs: number
  mtu: number
  onData: (chunk: Uint8Array) => void
  /** called once, also after our own disconnect */
  onLost: (reason: string) => void
}

export interface BleRadio {
  /** Opens the adapter. Throws an OsError that says what is missing and what to do. */
  open(events: RadioEvents): Promise<void>
  close(): Promise<void>
  startScan(): Promise<void>
  stopScan(): Promise<void>
  /** HCI reset: ends the scan. False: not done, because it would cut connections. */
  reset(): Promise<boolean>
  /** Throws LINK_DOWN (not reached, or lost while connecting), NOT_FOUND (no such service), TIMEOUT. */
  connect(options: BleConnectOptions): Promise<BleConnection>
  /** events the library could not parse, by name */
  readonly detail: Readonly<Record<string, number>>
}
