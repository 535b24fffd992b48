// A radio on noble's HCI socket. This code disables what the library does that does not fit a gateway:
// - The library keeps an object for every device it ever heard: here it gets only those that are connected to. Reports
//   come directly from the socket's parser, also because the library merges the reports of one device.
// - The library ends the process at SIGINT: the gateway's own stop does that.
// - Bytes of a peer that its parser does not expect throw out of a socket event: here they are counted.
// - Its native socket blocks, and closes descriptors of others: hci-socket.ts replaces it. The package's version is
//   pinned because this code uses its private fields; another version (checkVersion) or a missing field (checkNoble) is
//   NO_DRIVER.
//
// Errors: the package is missing (NO_DRIVER) or the addon is (E_NO_ADDON); the adapter is missing, off or not allowed
// (machine.ts); the adapter is unplugged (lost within a second, the library's polling interval); a peer does not answer
// (every step has a deadline).
/// <reference path="./library.d.ts" />

import type Bindings from '@stoprocent/noble/lib/hci-socket/bindings.js'
import type { Hci } from '@stoprocent/noble/lib/hci-socket/bindings.js'
import type Noble from '@stoprocent/noble/lib/noble.js'
import { within } from '../../src/lib/deadline'
import { asOsError, closedWhileOpening, OsError } from '../../src/lib/errors'
import { type Files, realFiles } from '../../src/lib/files'
import type { Logger } from '../../src/lib/logger'
import { systemTimers, type Timers } from '../../src/lib/timers'
import { HciSocket } from './hci-socket'
import { adapterTrouble, adapterUsers, hasRights } from './machine'
import { checkNoble, checkVersion, connectStream } from './noble-connect'
import type { AddressType, BleConnection, BleConnectOptions, BleRadio, RadioEvents } from './radio'
import { openUserChannel } from './user-channel'

const POWER_ON_MS = 5000
const STEP_MS = 3000
/** the RSSI value in HCI that means unknown */
const NO_RSSI = 127

interface Library {
  version: string
  Noble: typeof Noble
  Bindings: typeof Bindings
}

const missing = (cause: unknown): never => {
  throw new OsError('NO_DRIVER', `Bluetooth needs the package @stoprocent/noble: ${asOsError(cause).message}`, {
    cause,
    hint: 'this copy of os-node was built without it: take one that was built with the optional packages of npm (not with --omit=optional)',
  })
}

/** Each import has its own catch: otherwise a build without the package would fail. */
async function load(): Promise<Library> {
  const [about, noble, bindings] = await Promise.all([
    import('@stoprocent/noble/package.json', { with: { type: 'json' } }).catch(missing),
    import('@stoprocent/noble/lib/noble.js').catch(missing),
    import('@stoprocent/noble/lib/hci-socket/bindings.js').catch(missing),
  ])
  return { version: about.default.version, Noble: noble.default, Bindings: bindings.default }
}

interface NobleRadioOptions {
  /** hci0 … */
  adapter: string
  /** extended scanning of Bluetooth 5: receives long advertisements, if the adapter can */
  extended: boolean
  logger: Logger
  files?: Files
  timers?: Timers
  /** tests pass their own */
  load?: () => Promise<Library>
  openChannel?: typeof openUserChannel
}

export class NobleRadio implements BleRadio {
  readonly detail = { unreadable: 0 }
  readonly #options: Required<NobleRadioOptions>
  #noble: Noble | undefined
  #bindings: Bindings | undefined
  #events: RadioEvents | undefined
  /** true while our own request stops the scan or the radio */
  #stopping = false
  #resetting = false
  /** events before that belong to the library's own start */
  #ready = false

  constructor(options: NobleRadioOptions) {
    this.#options = { files: realFiles, timers: systemTimers, load, openChannel: openUserChannel, ...options }
  }

  async open(events: RadioEvents): Promise<void> {
    await this.close()
    const { adapter, extended, files, load, openChannel, timers } = this.#options
    this.#events = events
    const trouble = adapterTrouble(files, adapter)
    if (trouble) throw trouble
    const library = await load()
    checkVersion(library.version)
    const deviceId = Number(adapter.slice(3))
    const opened = hasRights(files) ? undefined : await openChannel(deviceId, timers)
    if (this.#events !== events) throw closedWhileOpening()
    const hciDriver = class extends HciSocket {
      constructor() {
        super(undefined, opened)
      }
    }
    this.#bindings = new library.Bindings({ deviceId, extended, hciDriver, userChannel: opened !== undefined })
    this.#noble = new library.Noble(this.#bindings)
    this.#noble.removeAllListeners('warning')
    this.#noble.on('warning', text => this.#options.logger.debug(`noble: ${text}`))
    try {
      await this.#poweredOn(this.#noble)
    } catch (error) {
      await this.close()
      throw error
    }
  }

  async close(): Promise<void> {
    const noble = this.#noble
    this.#ready = false
    this.#events = undefined
    this.#noble = undefined
    const hci = this.#bindings?._hci
    this.#bindings = undefined
    if (!noble) return
    try {
      noble.stop()
    } catch (error) {
      this.#options.logger.debug(`noble did not stop cleanly: ${asOsError(error).message}`)
    }
    noble.removeAllListeners()
    if (!hci) return
    hci._socket.removeAllListeners()
    hci._socket.stop()
  }

  async #poweredOn(noble: Noble): Promise<void> {
    const { adapter } = this.#options
    let onState = (_state: string): void => undefined
    const state = new Promise<string>(resolve => {
      onState = resolve
    })
    void noble.state // the first read of `state` starts the bindings
    const heard = (to: string): void => {
      if (to === 'poweredOn' || to === 'unsupported' || to === 'unauthorized') onState(to)
      if (to === 'poweredOff') this.#lost(`${adapter} is off: hciconfig ${adapter} up`)
      else if (to !== 'poweredOn') this.#lost(`${adapter} ${to}`)
    }
    noble.on('stateChange', heard)
    this.#takeOver(noble)
    if (noble.state !== 'unknown') heard(noble.state) // the state was reported before we listened
    const reached = await this.#within(POWER_ON_MS, state, '')
    if (reached === 'poweredOn') {
      this.#ready = true
      return
    }
    if (reached === 'unauthorized') throw new OsError('NO_ACCESS', `no right to use ${adapter}`)
    if (reached === 'unsupported') {
      const users = adapterUsers(this.#options.files) || 'another program'
      throw new OsError('LINK_DOWN', `${adapter} lacks Bluetooth LE, or ${users} has exclusive use of it`)
    }
    throw new OsError('LINK_DOWN', `${adapter} is off or does not answer: hciconfig ${adapter} up`)
  }

  /** Replaces parts of the library; see the module head. */
  #takeOver(noble: Noble): void {
    const bindings = this.#bindings!
    const hci = bindings._hci!
    checkNoble(noble, bindings, hci ?? {})
    process.removeListener('SIGINT', bindings._sigIntHandler)
    this.#guard(hci)
    hci.removeAllListeners('leAdvertisingReport')
    hci.removeAllListeners('leExtendedAdvertisingReport')
    hci.on('leAdvertisingReport', (_status: number, _type: number, address: string, type: AddressType, data, rssi) =>
      this.#report(address, type, data, rssi),
    )
    hci.on(
      'leExtendedAdvertisingReport',
      (_status: number, _type: number, address: string, type: AddressType, _power: number, rssi: number, data) =>
        this.#report(address, type, data, rssi),
    )
    hci.on('reset', () => {
      if (!this.#resetting) this.#disturbed('adapter reset')
    })
    bindings.on('scanStop', () => {
      if (!this.#stopping) this.#disturbed('scan stopped')
    })
  }

  #guard(hci: Hci): void {
    const parse = hci.onSocketData.bind(hci)
    const guarded = (data: Buffer): void => {
      try {
        parse(data)
      } catch (error) {
        this.detail.unreadable++
        this.#options.logger.debug(`an event of the adapter could not be read: ${asOsError(error).message}`)
      }
    }
    hci.onSocketData = guarded
    hci._socket.removeAllListeners('data')
    hci._socket.on('data', guarded)
  }

  #report(address: string, addressType: AddressType, data: Buffer, rssi: number): void {
    this.#events?.report({ address, addressType, data, rssi: rssi === NO_RSSI ? null : rssi })
  }

  #lost(reason: string): void {
    const events = this.#events
    this.#events = undefined
    events?.lost(reason)
  }

  #disturbed(what: 'scan stopped' | 'adapter reset'): void {
    if (what === 'adapter reset') this.#forgetScan()
    if (this.#ready) this.#events?.disturbed(what)
  }

  /** Clears the library's state of a scan that has ended. */
  #forgetScan(): void {
    if (!this.#bindings) return
    this.#bindings._isScanning = false
    this.#bindings._isScanningStarted = false
  }

  async startScan(): Promise<void> {
    const noble = this.#open()
    const started = new Promise<void>((resolve, reject) => {
      noble.startScanning([], true, error => (error ? reject(error) : resolve()))
    })
    await this.#within(STEP_MS, started, 'the adapter did not start scanning')
  }

  async stopScan(): Promise<void> {
    const noble = this.#open()
    this.#stopping = true
    try {
      const stopped = new Promise<void>(resolve => noble.stopScanning(() => resolve()))
      await this.#within(STEP_MS, stopped, 'the adapter did not stop scanning')
    } finally {
      this.#stopping = false
      this.#forgetScan()
    }
  }

  async reset(): Promise<boolean> {
    this.#open()
    const hci = this.#bindings!._hci!
    if (hci._aclConnections.size > 0) return false
    this.#resetting = true
    try {
      const done = new Promise<void>(resolve => hci.once('reset', resolve))
      hci.reset()
      await this.#within(STEP_MS, done, 'the adapter did not answer a reset')
    } finally {
      this.#resetting = false
      this.#forgetScan()
    }
    return true
  }

  async connect(options: BleConnectOptions): Promise<BleConnection> {
    const noble = this.#open()
    const bindings = this.#bindings!
    this.#stopping = true // scanning must stop before connecting
    try {
      return await connectStream(noble, bindings, options, this.#options.timers)
    } finally {
      this.#stopping = false
    }
  }

  #open(): Noble {
    if (!this.#noble) throw new OsError('LINK_DOWN', `${this.#options.adapter} is closed`)
    return this.#noble
  }

  async #within<T>(ms: number, done: Promise<T>, late: string): Promise<T | undefined> {
    return within(this.#options.timers, ms, done, () => {
      if (late !== '') throw new OsError('LINK_DOWN', late)
      return undefined
    })
  }
}
