// An I2C adapter by the kernel's i2c-dev. One thread per adapter, shared by all who open the same path; it ends with
// the last of them. For adapters that support only SMBus, the SMBus calls with the same bytes on the wire are used.
// Errors: no device answers at an address: NO_REPLY; a stuck bus: TIMEOUT, then BUS_STUCK for all devices on it
// (native-thread.ts).
import { OsError } from '../lib/errors'
import { type BusOptions, DEFAULT_DEADLINE_MS, NativeThread } from './native-thread'

interface I2cOptions {
  clock?: BusOptions['clock']
  /** for opening; default 1 s */
  deadlineMs?: number
}

interface Adapter {
  bus: NativeThread
  /** what the adapter can do (I2C_FUNC_…) */
  opened: Promise<number>
  users: number
}

const adapters = new Map<string, Adapter>()

function adapterAt(path: string, options: I2cOptions): Adapter {
  const there = adapters.get(path)
  const refusal = there?.bus.refusal()
  if (refusal) throw refusal
  if (there) return there
  const bus = new NativeThread(path, options)
  const { deadlineMs = DEFAULT_DEADLINE_MS } = options
  const opened = bus.call(
    (addon, handle) => addon.i2cOpen(handle, path),
    'open',
    deadlineMs,
    null,
    error => noBus(error, path),
  )
  const adapter = { bus, opened, users: 0 }
  adapters.set(path, adapter)
  return adapter
}

function leave(path: string, adapter: Adapter): void {
  if (--adapter.users > 0) return
  adapter.bus.close()
  if (adapters.get(path) === adapter) adapters.delete(path)
}

export class I2cBus {
  readonly #adapter: Adapter
  #closed = false

  private constructor(
    readonly path: string,
    adapter: Adapter,
    /** what the adapter can do (I2C_FUNC_…) */
    readonly functions: number,
  ) {
    this.#adapter = adapter
  }

  /** Throws NOT_FOUND (no such adapter: enable I2C), NO_ACCESS (the group i2c), TIMEOUT, BUS_STUCK, E_NO_ADDON. */
  static async open(path: string, options: I2cOptions = {}): Promise<I2cBus> {
    const adapter = adapterAt(path, options)
    adapter.users++
    try {
      return new I2cBus(path, adapter, await adapter.opened)
    } catch (error) {
      leave(path, adapter)
      throw error
    }
  }

  /**
   * Writes `write`, then, without a stop in between, reads as many bytes as `read` is long; either may be null. `read`
   * belongs to the call until it is settled. Resolves with the bytes read. Throws NO_REPLY, UNSUPPORTED (an SMBus
   * adapter has no such call), TIMEOUT, BUS_STUCK, LINK_DOWN.
   */
  transfer(address: number, write: Uint8Array | null, read: Uint8Array | null, deadlineMs: number): Promise<number> {
    if (this.#closed) return Promise.reject(new OsError('LINK_DOWN', `${this.path}: closed`))
    return this.#adapter.bus.call(
      (addon, bus) => addon.i2cTransfer(bus, address, write, read ? read.length : -1),
      'transfer',
      deadlineMs,
      read,
      error => explain(error, this.path, address),
    )
  }

  /** Safe to call twice, and while stuck. Pending calls are rejected if this was the adapter's last user. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    leave(this.path, this.#adapter)
  }
}

/** Explains why a bus does not open, with what to do. */
function noBus(error: OsError, path: string): OsError {
  const { cause, details } = error
  if (error.code === 'NOT_FOUND')
    return new OsError('NOT_FOUND', `there is no I2C bus ${path}`, {
      cause,
      details,
      hint: 'enable I2C (dtparam=i2c_arm=on in config.txt) and load i2c-dev; ls /dev/i2c-* lists the buses',
    })
  if (error.code === 'NO_ACCESS')
    return new OsError('NO_ACCESS', `${path}: no right to open it`, { cause, details, hint: 'join the group i2c' })
  return error
}

/** Explains a transfer's error. */
function explain(error: OsError, path: string, address: number): OsError {
  const errno = String(error.details['errno'])
  const at = `${path} 0x${address.toString(16).padStart(2, '0')}`
  const details = { errno }
  if (errno === 'ENXIO' || errno === 'EREMOTEIO')
    return new OsError('NO_REPLY', `${at}: no device answers (${errno})`, {
      cause: error.cause,
      details,
      hint: 'check address, wiring, pull-up resistors and power; i2cdetect lists all devices',
    })
  if (errno === 'EBUSY')
    return new OsError('PORT_BUSY', `${at}: a driver of the kernel uses this address`, {
      cause: error.cause,
      details,
      hint: 'read it through that driver (/sys/class/hwmon, source type hwmon), or unload the driver',
    })
  if (errno === 'ETIMEDOUT')
    return new OsError('TIMEOUT', `${at}: the transfer did not end (${errno})`, {
      cause: error.cause,
      details,
      hint: 'a line is held low: check wiring and power; switching the chip off and on frees it',
    })
  return new OsError(error.code, `${at}: transfer ${errno}`, { cause: error.cause, details, hint: error.hint })
}
