// A byte stream over one GATT connection of noble: connect, find the service, subscribe, pass on the notifications.
// Every step has the same deadline; any failure ends the connection and removes all its state from the library.
/// <reference path="./library.d.ts" />
import type Bindings from '@stoprocent/noble/lib/hci-socket/bindings.js'
import type Noble from '@stoprocent/noble/lib/noble.js'
import type { Characteristic, Peripheral } from '@stoprocent/noble/lib/noble.js'
import { timeout, within } from '../../src/lib/deadline'
import { OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { BleConnection, BleConnectOptions } from './radio'

/** ATT MTU without an MTU exchange (Core Specification, volume 3, part F, 3.2.8) */
const SMALLEST_MTU = 23
const NO_RSSI = 127
const RSSI_MS = 10_000

/** the version of @stoprocent/noble whose private fields this code uses */
const READ_VERSION = '2.8.0'
const PRIVATE = {
  noble: ['_peripherals', '_cleanupPeriperals'],
  bindings: [
    ...['_hci', '_sigIntHandler', '_isScanning', '_isScanningStarted'],
    ...['_addresses', '_addresseTypes', '_connectable', 'scannable', 'onDiscover'],
  ],
  hci: ['_socket', '_aclConnections', 'onSocketData', 'reset'],
} as const

const unfit = (what: string): OsError =>
  new OsError('NO_DRIVER', `Bluetooth needs @stoprocent/noble ${READ_VERSION}, ${what}`, {
    hint: 'take a released os-node, or build it from its package-lock.json',
  })

/** Throws NO_DRIVER for another version of the library: its private fields may mean something else there. */
export function checkVersion(version: string): void {
  if (version !== READ_VERSION) throw unfit(`this build has ${version}`)
}

/** Throws NO_DRIVER if the library lacks a private field that this folder reads or replaces. */
export function checkNoble(noble: object, bindings: object, hci: object): void {
  const missing = Object.entries({ noble, bindings, hci }).flatMap(([name, part]) =>
    PRIVATE[name as keyof typeof PRIVATE].filter(field => !(field in part)).map(field => `${name}.${field}`),
  )
  if (missing.length > 0) throw unfit(`the one in this build lacks ${missing[0]}`)
}

/** The library's object for a peer, created as if the peer had been discovered. */
function peripheralOf(noble: Noble, bindings: Bindings, { address, addressType, rssi }: BleConnectOptions): Peripheral {
  const id = address.replaceAll(':', '')
  forget(noble, bindings, id)
  const advertisement = { serviceUuids: [], serviceData: [] }
  bindings.onDiscover(0, address, addressType, true, advertisement, rssi ?? NO_RSSI, false)
  const peripheral = noble._peripherals.get(id)
  if (!peripheral) throw new OsError('NO_DRIVER', `@stoprocent/noble made no object for ${address}`)
  return peripheral
}

function forget(noble: Noble, bindings: Bindings, id: string): void {
  noble._peripherals.get(id)?.removeAllListeners()
  noble._cleanupPeriperals(id)
  for (const table of [bindings._addresses, bindings._addresseTypes, bindings._connectable, bindings.scannable])
    delete table[id]
}

/** Works in any state: the library throws on a request to end a connection that does not exist. */
function giveUp(peripheral: Peripheral): void {
  if (peripheral.state === 'connecting') peripheral.cancelConnect()
  else if (peripheral.state === 'connected') peripheral.disconnect()
}

/** Throws LINK_DOWN, NOT_FOUND or TIMEOUT; see BleRadio.connect. */
export async function connectStream(
  noble: Noble,
  bindings: Bindings,
  options: BleConnectOptions,
  timers: Timers,
): Promise<BleConnection> {
  const { address, stream, timeoutMs, mtu, onData } = options
  const peripheral = peripheralOf(noble, bindings, options)
  let tellLost = (_reason: string): void => undefined
  peripheral.once('disconnect', (reason: unknown) => {
    forget(noble, bindings, peripheral.id)
    tellLost(`disconnected (${String(reason)})`)
  })
  const steps = async (): Promise<Characteristic> => {
    await peripheral.connectAsync({ mtu })
    const [service] = await peripheral.discoverServicesAsync([stream.service])
    if (!service) throw new OsError('NOT_FOUND', `${address} has no service ${stream.service}`)
    const found = await service.discoverCharacteristicsAsync([stream.write, stream.notify])
    const write = found.find(({ uuid }) => uuid === stream.write)
    const notify = found.find(({ uuid }) => uuid === stream.notify)
    if (!write || !notify)
      throw new OsError('NOT_FOUND', `the service of ${address} lacks a characteristic of the Nordic UART`)
    notify.on('data', (data: Buffer) => onData(data))
    await notify.subscribeAsync()
    return write
  }
  const opened = new Promise<Characteristic>((resolve, reject) => {
    tellLost = reason => reject(new OsError('LINK_DOWN', `${address}: ${reason}`))
    steps().then(resolve, reject)
  })
  try {
    const write = await within(timers, timeoutMs, opened, timeout(`${address} did not answer`, timeoutMs))
    return new NobleConnection(peripheral, write, options, timers, handler => {
      tellLost = handler
    })
  } catch (error) {
    giveUp(peripheral)
    forget(noble, bindings, peripheral.id)
    if (error instanceof OsError) throw error
    throw new OsError('LINK_DOWN', `${address}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  }
}

class NobleConnection implements BleConnection {
  readonly mtu: number
  readonly writes: BleConnection['writes']
  readonly #peripheral: Peripheral
  readonly #write: Characteristic
  #cancelRssi: () => void = () => undefined

  constructor(
    peripheral: Peripheral,
    write: Characteristic,
    { rssi, onLost }: BleConnectOptions,
    timers: Timers,
    whenLost: (handler: (reason: string) => void) => void,
  ) {
    this.#peripheral = peripheral
    this.#write = write
    this.mtu = Math.max(SMALLEST_MTU, peripheral.mtu ?? SMALLEST_MTU)
    peripheral.rssi = rssi ?? NO_RSSI
    this.writes = {
      withResponse: write.properties.includes('write'),
      withoutResponse: write.properties.includes('writeWithoutResponse'),
    }
    whenLost(reason => {
      this.#cancelRssi()
      onLost(reason)
    })
    const ask = (): void => {
      peripheral.updateRssi()
      this.#cancelRssi = timers.after(RSSI_MS, ask)
    }
    this.#cancelRssi = timers.after(RSSI_MS, ask)
  }

  get rssi(): number | null {
    return this.#peripheral.rssi === NO_RSSI ? null : this.#peripheral.rssi
  }

  write(bytes: Uint8Array, withResponse: boolean): Promise<void> {
    return this.#write.writeAsync(Buffer.from(bytes), !withResponse)
  }

  disconnect(): void {
    giveUp(this.#peripheral)
  }
}
