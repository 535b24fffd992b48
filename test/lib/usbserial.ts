// A USB serial adapter in the rig: a gadget with one CDC-ACM function on the dummy controller. /dev/ttyACMn is the board's
// side, /dev/ttyGS0 the device's own end. Unbinding the controller unplugs it. There is no udev in the rig: plug() creates
// the link in /dev/serial/by-id as udev would.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { until } from './gateway'

const GADGETS = '/sys/kernel/config/usb_gadget'

export class UsbSerial {
  readonly id: string
  readonly far = '/dev/ttyGS0'
  readonly #dir: string
  readonly #serial: string

  constructor(serial: string) {
    this.#serial = serial
    this.#dir = join(GADGETS, serial)
    this.id = `/dev/serial/by-id/usb-os-node_test_adapter_${serial}-if00`
    const config = join(this.#dir, 'configs/c.1')
    for (const dir of [this.#dir, join(this.#dir, 'strings/0x409'), config, join(this.#dir, 'functions/acm.usb0')])
      if (!existsSync(dir)) mkdirSync(dir)
    const set = (name: string, value: string): void => writeFileSync(join(this.#dir, name), value)
    set('idVendor', '0x1d6b')
    set('idProduct', '0x0104')
    set('strings/0x409/serialnumber', serial)
    set('strings/0x409/manufacturer', 'os-node test')
    set('strings/0x409/product', 'adapter')
    symlinkSync(join(this.#dir, 'functions/acm.usb0'), join(config, 'acm.usb0'))
  }

  /** The device node that the kernel created for it, or undefined. */
  get device(): string | undefined {
    const tty = '/sys/class/tty'
    const name = readdirSync(tty).find(entry => {
      if (!entry.startsWith('ttyACM')) return false
      const usb = dirname(realpathSync(join(tty, entry, 'device')))
      return existsSync(join(usb, 'serial')) && readFileSync(join(usb, 'serial'), 'utf8').trim() === this.#serial
    })
    return name && join('/dev', name)
  }

  async plug(): Promise<string> {
    writeFileSync(join(this.#dir, 'UDC'), 'dummy_udc.0')
    const device = await until('the adapter appears', () => this.device)
    mkdirSync('/dev/serial/by-id', { recursive: true })
    rmSync(this.id, { force: true })
    symlinkSync(device, this.id)
    return device
  }

  async unplug(): Promise<void> {
    writeFileSync(join(this.#dir, 'UDC'), '\n')
    rmSync(this.id, { force: true })
    await until('the adapter vanishes', () => !this.device)
  }
}
