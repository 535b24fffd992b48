// Options of the media UIP and IWIP, as in Config.json: meaning, bounds and defaults.
import { type InferOutput, object } from 'valibot'
import { choice, int, optionalText, port, text } from '../../src/config/fields'
import { serialEntries } from '../serial/serial-options'

/** here `port` is the UDP port; the serial port is `device` */
const { port: _, ...line } = serialEntries(115_200)

const common = {
  mode: choice(
    ['send', 'listen'],
    'send',
    'send: to host and port, answers come back; listen: at port, for packets from every sender on the line',
  ),
  host: optionalText('IPv4 address of the peer'),
  port: port(8080, 'UDP port of the peer, or to listen on'),
  ...line,
  address: text('10.0.0.1', 'IPv4 address of this end of the line'),
}

export const uipOptions = object({
  ...common,
  device: optionalText('serial port of the board, for example /dev/serial/by-id/…'),
  // uIP has one datagram buffer of 400 bytes or less; the kernel's SLIP lines default to 296 too
  mtu: int(296, 'bytes of the largest IP datagram of the peer', { min: 96, max: 1500 }),
})

export const iwipOptions = object({
  ...common,
  listen_host: text('0.0.0.0', 'address to listen on, without a device'),
  device: optionalText('serial port of the board; IWIP without it: over the network of this machine'),
  mtu: int(1500, 'bytes of the largest IP datagram; a larger packet is refused, nothing is ever sent in fragments', {
    min: 96,
    max: 1500,
  }),
})

export type UipOptions = InferOutput<typeof uipOptions>
export type IwipOptions = InferOutput<typeof iwipOptions>
