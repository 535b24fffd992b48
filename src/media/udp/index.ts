// The UDP medium (specification, "Transporter media"; one datagram, one raw packet): its declaration, and the
// one-shot exchange that ensure_id, ensure_time and dispatch_with_reply use.
import { systemClock } from '../../lib/clock'
import { within } from '../../lib/deadline'
import { asOsError, OsError } from '../../lib/errors'
import { silentLogger } from '../../lib/logger'
import { systemTimers } from '../../lib/timers'
import type { DriverContext, Medium, MediumDriver } from '../../links/contracts'
import { checkOptions, peerHost } from '../../links/driver-options'
import { HostResolver } from '../../links/resolve'
import { UdpListener } from './listener'
import { UdpSender } from './sender'
import { closed, makeSocket, peerText, until } from './socket'
import { type UdpOptions, udpOptions } from './udp-options'

export { HostResolver } from '../../links/resolve'
export { UdpListener } from './listener'
export { UdpSender } from './sender'
export { DEFAULT_MAX_PACKET, MAX_DATAGRAM, type UdpOptions, udpOptions } from './udp-options'

/**
 * A medium that sends (`mode: "send"`, the default: needs a host) or listens (`mode: "listen"`). Options as in Config.json.
 * Throws CONFIG_INVALID.
 */
export function createUdp(
  name: string,
  options: unknown,
  context: DriverContext & { resolver?: HostResolver },
): UdpSender | UdpListener {
  const checked = checkOptions(udpOptions, options, name)
  const common = {
    port: checked.port,
    maxPacket: checked.max_packet,
    receiveBufferBytes: checked.receive_buffer_bytes,
    batch: checked.batch,
    ...context,
  }
  if (checked.mode === 'listen') return new UdpListener(name, { ...common, host: checked.listen_host })
  return new UdpSender(name, { ...common, host: peerHost(name, checked) })
}

export const udpDriver: MediumDriver<UdpOptions> = {
  medium: 'UDP',
  schema: udpOptions,
  create: (name, options, context): Medium => createUdp(name, options, context),
}

export interface RequestOptions {
  resolver?: HostResolver
  /** called with the reason if there is no reply: NETWORK (no address, no route, no listener) or NO_REPLY (timed out) */
  onFailure?: (error: OsError) => void
}

/**
 * Sends one packet and waits for the first reply from that address that `accept` accepts. Returns null on a time-out or
 * if the peer cannot be reached; never throws. The kernel drops replies of other addresses (decision 0018).
 */
export async function request(
  host: string,
  port: number,
  packet: Uint8Array,
  timeoutMs: number,
  accept: (reply: Buffer) => boolean = () => true,
  { resolver = new HostResolver({ clock: systemClock, logger: silentLogger }), onFailure }: RequestOptions = {},
): Promise<Buffer | null> {
  const over = new AbortController()
  const late = (): never => {
    over.abort()
    throw new OsError('NO_REPLY', `${host}:${port} did not answer in ${timeoutMs} ms`)
  }
  try {
    return await within(systemTimers, timeoutMs, exchange(host, port, packet, accept, resolver, over.signal), late)
  } catch (error) {
    onFailure?.(asOsError(error, 'NETWORK'))
    return null
  }
}

async function exchange(
  host: string,
  port: number,
  packet: Uint8Array,
  accept: (reply: Buffer) => boolean,
  resolver: HostResolver,
  over: AbortSignal,
): Promise<Buffer> {
  const peer = await resolver.resolve(host)
  const socket = makeSocket(peer.family)
  try {
    await until(socket, 'connect', () => socket.connect(port, peer.address))
    // after a slow name look-up: nothing is sent for a request that has timed out
    over.throwIfAborted()
    return await new Promise<Buffer>((resolve, reject) => {
      over.addEventListener('abort', reject)
      socket.on('error', reject)
      socket.on('message', message => {
        try {
          if (accept(message)) resolve(message)
        } catch (error) {
          reject(error)
        }
      })
      socket.send(packet, error => {
        if (error) reject(error)
      })
    })
  } catch (cause) {
    throw new OsError('NETWORK', peerText(cause, peer.address, port), { cause })
  } finally {
    await closed(socket)
  }
}
