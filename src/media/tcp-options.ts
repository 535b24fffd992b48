// Options of the TCP medium, as in Config.json: what they mean, their bounds and defaults.
import {
  type InferOutput,
  integer,
  maxValue,
  minValue,
  number,
  object,
  optional,
  picklist,
  pipe,
  string,
} from 'valibot'
import { tlsSchema } from './tls'

/** the length before each packet has two bytes */
export const MAX_STREAM_PACKET = 65_535

const whole = (low: number, high: number) => pipe(number(), integer(), minValue(low), maxValue(high))
const seconds = (high: number) => pipe(number(), minValue(0.01), maxValue(high))

export const tcpOptions = object({
  /** `send`: one connection to host and port; `listen`: connections come in at listen_host and port */
  mode: optional(picklist(['send', 'listen']), 'send'),
  host: optional(string()),
  /** the peer's port, or the one listened on (0: any free one) */
  port: optional(whole(0, 65_535), 8888),
  listen_host: optional(string(), '0.0.0.0'),
  max_packet: optional(whole(64, MAX_STREAM_PACKET), MAX_STREAM_PACKET),
  tls: optional(tlsSchema),
  /** `best_effort`: each packet in a connection of its own, as the reference sends and takes them */
  delivery: optional(string()),
  connect_timeout_s: optional(seconds(60), 3),
  /** a peer that takes nothing, or answers nothing, for so long is lost */
  send_timeout_s: optional(seconds(3600), 30),
  /** listening: connections at once, and of one address */
  max_connections: optional(whole(1, 65_535), 4096),
  max_per_address: optional(whole(1, 65_535), 256),
  /** listening: the handshake, the first bytes, a plain packet up to its end, and each begun packet come within this */
  receive_timeout_s: optional(seconds(3600), 10),
  /** listening: a connection without a packet for so long is closed */
  idle_timeout_s: optional(seconds(86_400 * 7), 3600),
})

export type TcpOptions = InferOutput<typeof tcpOptions>
