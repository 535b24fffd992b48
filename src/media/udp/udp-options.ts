// Options of the UDP medium, as in Config.json: meaning, bounds and defaults.
import { type InferOutput, object } from 'valibot'
import { choice, int, maxPacket, optionalText, port, text } from '../../config/fields'
import type { Clock } from '../../lib/clock'
import type { Logger } from '../../lib/logger'
import type { HostResolver } from '../../links/resolve'

/** largest UDP payload over IPv4: 65535 - 20 (IP) - 8 (UDP) */
export const MAX_DATAGRAM = 65_507

/**
 * 1400 bytes fit one frame on every common path (Ethernet 1500, PPPoE 1492, WireGuard 1420, tunnels 1400 with headers
 * counted): a larger datagram is fragmented, and one lost fragment loses it completely.
 */
export const DEFAULT_MAX_PACKET = 1400

export const udpOptions = object({
  mode: choice(
    ['send', 'listen'],
    'send',
    'send: to host and port, answers come back; listen: at listen_host and port',
  ),
  host: optionalText('address of the peer'),
  port: port(8080),
  listen_host: text('0.0.0.0', 'address to listen on'),
  max_packet: maxPacket(DEFAULT_MAX_PACKET, MAX_DATAGRAM),
  // the kernel grants at most net.core.rmem_max, and counts a small packet as 768 bytes of twice this size: 4 MiB are
  // 11,000 packets, a tenth of a second at 100,000/s
  receive_buffer_bytes: int(4 * 1024 * 1024, 'receive buffer in the kernel', {
    min: 4096,
    max: 256 * 1024 * 1024,
    side: 'listen',
  }),
  batch: choice(['auto', 'off'], 'auto', 'auto: many packets per system call with the addon; off: one by one'),
})

export type UdpOptions = InferOutput<typeof udpOptions>

/** Parameters of a socket to one peer or of a listening port. */
export interface UdpPartOptions {
  /** a name or address of the peer; for a listener a local address, where '::' also receives IPv4 */
  host: string
  /** for a listener 0: any free port */
  port: number
  /** advice for the packer; up to MAX_DATAGRAM is possible, in fragments */
  maxPacket: number
  receiveBufferBytes: number
  /** 'auto': by the addon if it exists (default) */
  batch?: 'auto' | 'off'
  clock: Clock
  logger: Logger
  resolver?: HostResolver
}
