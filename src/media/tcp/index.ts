// The TCP medium (specification, "Transporter media"; X29): between os-node peers one connection with length-prefixed
// packets in both directions; towards the reference one connection per packet. TLS is possible on both.
import type { DriverContext, Medium, MediumDriver } from '../../links/contracts'
import { checkOptions, peerHost } from '../../links/driver-options'
import type { HostResolver } from '../../links/resolve'
import { TcpListener } from './listener'
import { TcpSender } from './sender'
import { type TcpOptions, tcpOptions } from './tcp-options'

export { TcpListener } from './listener'
export { TcpSender } from './sender'
export { MAX_STREAM_PACKET, type TcpOptions, tcpOptions } from './tcp-options'

/**
 * A medium that sends (`mode: "send"`, the default: needs a host) or listens (`mode: "listen"`). Options as in Config.json.
 * Throws CONFIG_INVALID.
 */
export function createTcp(
  name: string,
  options: unknown,
  context: DriverContext & { resolver?: HostResolver },
): TcpSender | TcpListener {
  const checked = checkOptions(tcpOptions, options, name)
  if (checked.mode === 'listen') return new TcpListener(name, checked, context)
  return new TcpSender(name, { ...checked, host: peerHost(name, checked) }, context)
}

export const tcpDriver: MediumDriver<TcpOptions> = {
  medium: 'TCP',
  schema: tcpOptions,
  create: (name, options, context): Medium => createTcp(name, options, context),
}
