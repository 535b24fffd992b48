// Options of the TCP medium, as in Config.json: meaning, bounds and defaults.
import { type InferOutput, object } from 'valibot'
import { choice, int, maxPacket, num, optionalText, port, text } from '../../config/fields'
import { tlsOption } from '../tls/tls-options'

/** the length prefix of a packet has two bytes */
export const MAX_STREAM_PACKET = 65_535

export const tcpOptions = object({
  mode: choice(
    ['send', 'listen'],
    'send',
    'send: connects to host and port; listen: accepts connections at listen_host and port',
  ),
  host: optionalText('address of the peer'),
  port: port(8888),
  listen_host: text('0.0.0.0', 'address to listen on'),
  max_packet: maxPacket(MAX_STREAM_PACKET, MAX_STREAM_PACKET),
  tls: tlsOption('encryption: true, or its files and names'),
  delivery: optionalText('best_effort: a separate connection for each packet, as the reference does', {
    side: 'send',
  }),
  connect_timeout_s: num(3, 'time limit for connecting', { min: 0.01, max: 60, side: 'send' }),
  send_timeout_s: num(30, 'a peer that accepts or answers nothing for this long is lost', {
    min: 0.01,
    max: 3600,
  }),
  max_connections: int(4096, 'most simultaneous connections', { min: 1, max: 65_535, side: 'listen' }),
  max_per_address: int(256, 'most connections from one address', { min: 1, max: 65_535, side: 'listen' }),
  receive_timeout_s: num(10, 'time limit for the TLS handshake, the first bytes, and completing a packet', {
    min: 0.01,
    max: 3600,
    side: 'listen',
  }),
  idle_timeout_s: num(3600, 'a connection without a packet for this long is closed', {
    min: 0.01,
    max: 604_800,
    side: 'listen',
  }),
})

export type TcpOptions = InferOutput<typeof tcpOptions>
