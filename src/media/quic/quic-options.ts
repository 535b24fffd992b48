// Options of the QUIC medium, as in Config.json: meaning, bounds and defaults.
import { type InferOutput, object } from 'valibot'
import { choice, int, maybeFlag, optionalText, port, text } from '../../config/fields'
import type { DriverContext } from '../../links/contracts'
import type { HostResolver } from '../../links/resolve'
import { tlsOption } from '../tls/tls-options'

export const MAX_PACKET = 0xffff

export const quicOptions = object({
  mode: choice(['send', 'listen'], 'send', 'send: to host and port; listen: at listen_host and port'),
  host: optionalText('address of the peer'),
  port: port(4433),
  listen_host: text('0.0.0.0', 'address to listen on'),
  tls: tlsOption('files and names of the encryption, which is always on; to listen, cert and key are needed'),
  insecure: maybeFlag("the reference's spelling of tls.insecure"),
  max_packet: int(MAX_PACKET, 'bytes of the largest packet; the path may allow less', { min: 64, max: MAX_PACKET }),
  idle_timeout_ms: int(15_000, 'a peer not heard for this long is lost; keep-alives: a third of it', {
    min: 1000,
    max: 600_000,
  }),
  connect_timeout_ms: int(10_000, 'time limit for connecting', { min: 100, max: 60_000, side: 'send' }),
  max_connections: int(1024, 'most peers; more are not answered', { min: 1, max: 65_535, side: 'listen' }),
})

export type QuicOptions = InferOutput<typeof quicOptions>

export type QuicContext = DriverContext & { resolver?: HostResolver }
