// The media UIP and IWIP (specification, "Transporter media"): UDP over IPv4 to boards with uIP, Contiki or lwIP, over
// SLIP on a serial line; IWIP also over this machine's network. Declarations; medium.ts and network.ts describe the
// errors.
import { OsError } from '../../src/lib/errors'
import type { DriverContext, Medium, MediumDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { serialLine, serialSettings } from '../serial'
import { type Endpoint, HEADERS, parseIp } from './codec'
import { SlipMedium } from './medium'
import { BoundedMedium } from './network'
import { wayTo } from './route'
import { type IwipOptions, iwipOptions, type UipOptions, uipOptions } from './slip-options'

export { iwipOptions, uipOptions } from './slip-options'

/** local ports of sending ends, one each (RFC 6335: dynamic ports) */
const FIRST_PORT = 49_152
const PORTS = 16_384
let opened = 0

type Options = UipOptions & { device: string }

function addressOf(name: string, key: string, text: string): number {
  const ip = parseIp(text)
  if (ip !== null) return ip
  throw new OsError('CONFIG_INVALID', `options of ${name}: ${key}: ${text} is no IPv4 address`, {
    details: { link: name, keys: [key] },
  })
}

function slipMedium(name: string, medium: string, options: Options, context: DriverContext): Medium {
  const { mode, host, port, address, mtu, device } = options
  const ip = addressOf(name, 'address', address)
  const line = serialLine(name, serialSettings({ ...options, port: device }), context)
  if (mode === 'listen') return new SlipMedium(line, { medium, mtu, own: { ip, port }, logger: context.logger })
  if (!host)
    throw new OsError('CONFIG_INVALID', `options of ${name}: host: the IPv4 address of the board is needed`, {
      details: { link: name, keys: ['host'] },
    })
  const own: Endpoint = { ip, port: FIRST_PORT + (opened++ % PORTS) }
  const peer = { ip: addressOf(name, 'host', host), port }
  return new SlipMedium(line, { medium, mtu, own, peer, logger: context.logger })
}

/** The error when a required device is not configured. */
const noDevice = (name: string): OsError =>
  new OsError('CONFIG_INVALID', `options of ${name}: device: the serial port of the board is needed`, {
    details: { link: name, keys: ['device'] },
    hint: 'for example "device": "/dev/serial/by-id/…"; ls /dev/serial/by-id lists the ports',
  })

/** Options as in Config.json. Throws CONFIG_INVALID with the key. */
export const uipDriver: MediumDriver<UipOptions> = {
  medium: 'UIP',
  schema: uipOptions,
  create(name, raw, context) {
    const options = checkOptions(uipOptions, raw, name)
    if (!options.device) throw noDevice(name)
    return slipMedium(name, 'UIP', { ...options, device: options.device }, context)
  },
}

/** `udp`: the medium that is used if no serial line is configured. */
export const iwipDriver = (udp: MediumDriver): MediumDriver<IwipOptions> => ({
  medium: 'IWIP',
  schema: iwipOptions,
  create(name, raw, context) {
    const options = checkOptions(iwipOptions, raw, name)
    const { device, mtu, mode, host, port, listen_host } = options
    if (device) return slipMedium(name, 'IWIP', { ...options, device }, context)
    const maxPacket = mtu - HEADERS
    const inner = udp.create(name, { mode, host, port, listen_host, max_packet: maxPacket }, context)
    // a listening end only sends small answers
    const way = async () => (mode === 'send' && host ? wayTo(host, port) : null)
    return new BoundedMedium(inner, 'IWIP', maxPacket, context.logger, way)
  },
})
