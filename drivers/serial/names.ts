// Names of serial ports (R15). A port is named by a path (preferably in /dev/serial/by-id), by its plain name, or by
// the USB adapter's identity; when ttyUSB0 returns as ttyUSB1 it is recognized by its adapter.
//
// Errors: a name that matches no port, or several: NOT_FOUND, with a list of the existing ports. The kernel reads an
// adapter's attributes under a lock, which it may hold during a reset of the adapter: so a thread reads them, and an
// adapter that does not answer has no identity.
import { readdirSync, realpathSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { OsError, orElse } from '../../src/lib/errors'
import { nativeOrNull } from '../../src/native'
import { FileReader } from '../../src/native/files'

export interface UsbIdentity {
  readonly vendor: string
  readonly product: string
  /** '' if the adapter has none */
  readonly serial: string
  /** socket and interface of the adapter, for example '1-1.3:1.0' */
  readonly place: string
}

interface PortInfo {
  /** for example '/dev/ttyUSB0' */
  readonly path: string
  /** names in /dev/serial/by-id */
  readonly ids: readonly string[]
  readonly usb?: UsbIdentity
}

const USB_PATTERN = /^usb:([0-9a-f]{4}):([0-9a-f]{4})(?::(.+))?$/i

/** Empty: no such folder. */
const listOf = (dir: string): string[] => orElse([], () => readdirSync(dir).sort())

/** The text of an attribute; null: missing, or not returned in time. */
type Attribute = (path: string) => Promise<string | null>

const DEADLINE_MS = 1000

/** Runs `ask` with the attributes of one device: on a separate thread, so that one that hangs does not delay another. */
async function asking<T>(device: string, ask: (attribute: Attribute) => Promise<T>): Promise<T> {
  let reader: FileReader | undefined
  const read = async (path: string): Promise<string> => {
    // without the addon no port can be opened
    if (!nativeOrNull()) return readFile(path, 'latin1')
    reader ??= new FileReader(`attributes of ${device}`)
    const into = Buffer.alloc(4096)
    return into.toString('latin1', 0, await reader.read(path, into, DEADLINE_MS))
  }
  try {
    return await ask(async path => {
      try {
        return (await read(path)).trim()
      } catch {
        return null // an attribute that this port lacks
      }
    })
  } finally {
    reader?.close()
  }
}

/** null: a dangling link, or no file */
const realOf = (path: string): string | null => orElse(null, () => realpathSync(path))

export class PortNames {
  readonly #dev: string
  readonly #sys: string

  /** The folders are for tests. */
  constructor(dev = '/dev', sys = '/sys/class/tty') {
    this.#dev = dev
    this.#sys = sys
  }

  /**
   * The device a name refers to now. `before`: the device's adapter when it was last open, searched for if the name is
   * missing or its number now belongs to another adapter. Throws NOT_FOUND with a list of the existing ports as its
   * hint.
   */
  async resolve(port: string, before?: UsbIdentity): Promise<string> {
    if (port === '') throw await this.#missing('no serial port is named')
    const usb = USB_PATTERN.exec(port)
    if (usb) return this.#byUsb(port, usb[1]!.toLowerCase(), usb[2]!.toLowerCase(), usb[3])
    const places = port.startsWith('/')
      ? [port]
      : [port, `serial/by-id/${port}`, `serial/by-path/${port}`].map(name => join(this.#dev, name))
    for (const place of places) {
      const real = realOf(place)
      if (real) return (before && (await this.#isAnother(port, before)) && (await this.#where(before))) || real
    }
    const moved = before && (await this.#where(before))
    if (moved) return moved
    throw await this.#missing(`there is no serial port ${port}`)
  }

  /** Whether the name is a kernel number that now belongs to another adapter, while the adapter `before` is missing. */
  async isTaken(port: string, before: UsbIdentity): Promise<boolean> {
    return (await this.#isAnother(port, before)) && (await this.#where(before)) === undefined
  }

  /** Links are not numbers: one in by-path means whatever is plugged into that socket. */
  async #isAnother(port: string, before: UsbIdentity): Promise<boolean> {
    const place = port.startsWith('/') ? port : join(this.#dev, port)
    const usb = realOf(place) === place ? await this.usbOf(place) : undefined
    return usb !== undefined && !isSame(before, usb)
  }

  async #where(adapter: UsbIdentity): Promise<string | undefined> {
    return (await this.list()).find(({ usb }) => usb && isSame(adapter, usb))?.path
  }

  /** The identity of a USB adapter, undefined for other devices. */
  usbOf(device: string): Promise<UsbIdentity | undefined> {
    return asking(basename(device), attribute => this.#usb(device, attribute))
  }

  async #usb(device: string, attribute: Attribute): Promise<UsbIdentity | undefined> {
    let place: string | undefined
    const start = realOf(join(this.#sys, basename(device), 'device'))
    for (let dir = start, depth = 0; dir && depth < 4; dir = dirname(dir), depth++) {
      if (basename(dir).includes(':')) place ??= basename(dir)
      const vendor = await attribute(join(dir, 'idVendor'))
      const product = await attribute(join(dir, 'idProduct'))
      if (!vendor || !product) continue
      return { vendor, product, serial: (await attribute(join(dir, 'serial'))) ?? '', place: place ?? basename(dir) }
    }
    return undefined
  }

  /** Every serial port that has hardware behind it. */
  async list(): Promise<PortInfo[]> {
    const byId = join(this.#dev, 'serial/by-id')
    const ids = listOf(byId).map(name => ({ id: join(byId, name), real: realOf(join(byId, name)) }))
    const names = listOf(this.#sys).filter(
      name => realOf(join(this.#sys, name, 'device')) && realOf(join(this.#dev, name)),
    )
    const found = await Promise.all(
      names.map(name =>
        asking(name, async attribute => {
          if ((await attribute(join(this.#sys, name, 'type'))) === '0') return []
          const path = join(this.#dev, name)
          const usb = await this.#usb(path, attribute)
          return [{ path, ids: ids.filter(({ real }) => real === path).map(({ id }) => id), ...(usb && { usb }) }]
        }),
      ),
    )
    return found.flat()
  }

  /** `NOT_FOUND: …`, with all existing ports in the hint. */
  async #missing(text: string): Promise<OsError> {
    const there = (await this.list()).map(({ path, ids: [id] }) => (id ? `${id} (${basename(path)})` : path))
    const hint =
      there.length > 0
        ? `there are: ${there.join(', ')}`
        : 'this machine has no serial port now: plug the adapter in, or enable the UART (enable_uart=1 in config.txt)'
    return new OsError('NOT_FOUND', text, { hint, details: { ports: there } })
  }

  async #byUsb(port: string, vendor: string, product: string, serial: string | undefined): Promise<string> {
    const found = (await this.list()).filter(
      ({ usb }) => usb?.vendor === vendor && usb.product === product && (serial === undefined || usb.serial === serial),
    )
    if (found.length === 1) return found[0]!.path
    if (found.length === 0)
      throw await this.#missing(`no USB adapter ${port.slice('usb:'.length)} with a serial port was found`)
    throw new OsError('NOT_FOUND', `${found.length} ports match ${port}`, {
      hint: `name one of: ${found.map(({ path, ids: [id] }) => id ?? path).join(', ')}`,
    })
  }
}

/** The same adapter and interface: by its serial number, or if it has none, by its socket. */
function isSame(a: UsbIdentity, b: UsbIdentity): boolean {
  if (a.vendor !== b.vendor || a.product !== b.product || a.serial !== b.serial) return false
  if (a.serial === '') return a.place === b.place
  return a.place.split(':')[1] === b.place.split(':')[1]
}

/** Distinguishes a device node from an earlier one with the same path; null: no node. */
export function nodeIdentity(path: string): string | null {
  try {
    const { dev, ino, rdev, mode, gid, ctimeMs } = statSync(path)
    return [dev, ino, rdev, mode, gid, ctimeMs].join(':')
  } catch {
    return null // removed
  }
}
