// The QUIC medium (specification, "Transporter media"): its declaration. Encrypted datagrams to one peer, or from many;
// the delivery exchange runs over it like over UDP. sender.ts and listener.ts describe the errors.
import type { Medium, MediumDriver } from '../../links/contracts'
import { checkOptions, peerHost } from '../../links/driver-options'
import { QuicListener } from './listener'
import { type QuicContext, type QuicOptions, quicOptions } from './quic-options'
import { QuicSender } from './sender'

export { QuicListener } from './listener'
export { type QuicOptions, quicOptions } from './quic-options'
export { QuicSender } from './sender'
export { ALPN } from './settings'

/** A medium that sends (`mode: "send"`: needs a host) or listens (needs tls.cert and tls.key). Throws CONFIG_INVALID. */
export function createQuic(name: string, options: unknown, context: QuicContext): QuicSender | QuicListener {
  const checked = checkOptions(quicOptions, options, name)
  if (checked.mode === 'listen') return new QuicListener(name, checked, context)
  return new QuicSender(name, { ...checked, host: peerHost(name, checked) }, context)
}

export const quicDriver: MediumDriver<QuicOptions> = {
  medium: 'QUIC',
  schema: quicOptions,
  create: (name, options, context): Medium => createQuic(name, options, context),
}
