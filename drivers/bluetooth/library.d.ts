// The parts of @stoprocent/noble 2.8 that noble.ts uses. The package's own types cover neither its inner modules nor
// their members.
declare module '@stoprocent/noble/lib/noble.js' {
  import type { EventEmitter } from 'node:events'
  export interface Characteristic extends EventEmitter {
    uuid: string
    properties: string[]
    writeAsync(data: Buffer, withoutResponse: boolean): Promise<void>
    subscribeAsync(): Promise<unknown>
  }
  export interface Service {
    uuid: string
    characteristics: Characteristic[]
    discoverCharacteristicsAsync(uuids: string[]): Promise<Characteristic[]>
  }
  export interface Peripheral extends EventEmitter {
    id: string
    state: string
    mtu: number | null
    rssi: number
    connectAsync(options: Record<string, unknown>): Promise<void>
    cancelConnect(): void
    disconnect(): void
    discoverServicesAsync(uuids: string[]): Promise<Service[]>
    updateRssi(): void
  }
  export default class Noble extends EventEmitter {
    constructor(bindings: unknown)
    readonly state: string
    startScanning(uuids: string[], duplicates: boolean, done: (error?: Error | null) => void): void
    stopScanning(done: (error?: Error | null) => void): void
    stop(): void
    _peripherals: Map<string, Peripheral>
    _cleanupPeriperals(id: string): void
  }
}
declare module '@stoprocent/noble/lib/hci-socket/bindings.js' {
  import type { EventEmitter } from 'node:events'
  export interface Hci extends EventEmitter {
    _socket: EventEmitter & { stop(): void }
    onSocketData(data: Buffer): void
    reset(): void
    _aclConnections: Map<number, unknown>
  }
  export default class Bindings extends EventEmitter {
    /** `hciDriver` is passed to loadDriver of the socket's package, which this build replaces */
    constructor(options: {
      deviceId: number
      extended: boolean
      hciDriver: new () => EventEmitter
      /** exclusive use of the adapter, without the kernel */
      userChannel: boolean
    })
    _hci: Hci | null
    _sigIntHandler: () => void
    _isScanning: boolean
    _isScanningStarted: boolean
    _addresses: Record<string, unknown>
    _addresseTypes: Record<string, unknown>
    _connectable: Record<string, unknown>
    scannable: Record<string, unknown>
    onDiscover(
      status: number,
      address: string,
      type: string,
      connectable: boolean,
      advertisement: object,
      rssi: number,
      scannable: boolean,
    ): void
  }
}
declare module '@stoprocent/noble/package.json' {
  const about: { version: string }
  export default about
}
