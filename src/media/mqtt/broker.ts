// The broker of one link: makes a connection from its options. Shared by sender and listener.
import type { Duplex } from 'node:stream'
import type { NodeIdentity } from '../../links/contracts'
import { type HostResolver, hostPort } from '../../links/resolve'
import { connectSocket } from '../stream-socket'
import { clientTls, secureSocket, type TlsParts, tlsSettings } from '../tls'
import { connectBroker, type MqttConnection, type MqttConnectOptions } from './connection'
import type { MqttOptions } from './mqtt-options'
import type { Party } from './topics'

export const PORT = 1883
export const TLS_PORT = 8883
/** each for connection and handshake; two openings stay below the supervisor's 30 s */
const CONNECT_MS = 7_000

export interface BrokerParts {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly options: MqttOptions
  readonly identity: NodeIdentity
  readonly resolver: HostResolver
  readonly tls: TlsParts
}

/** The parameters of a connection besides the options: client id, session and callbacks. */
type BrokerSession = Pick<MqttConnectOptions, 'clientId' | 'clean' | 'sessionExpiryS' | 'will' | 'onMessage' | 'onLost'>

/** `mqtt://broker`, with its port unless it is 1883 */
export const brokerAddress = ({ host, port }: BrokerParts): string =>
  `mqtt://${port === PORT ? host.replace(/^(?!\[)(.*:.*)$/, '[$1]') : hostPort(host, port)}`

export function partyOf({ aid, installId }: NodeIdentity): Party {
  return { aid: aid === null ? `new-${installId}` : String(aid), install: installId }
}

export function connectSession(parts: BrokerParts, session: BrokerSession): Promise<MqttConnection> {
  const { protocol_version, keepalive_s, username, password, max_in_flight } = parts.options
  return connectBroker({
    ...session,
    openSocket: () => openSocket(parts),
    versions: protocol_version === undefined ? [5, 4] : [protocol_version],
    keepaliveS: keepalive_s,
    username,
    password,
    maxUnsettled: max_in_flight,
  })
}

async function openSocket({ host, port, resolver, options, tls: parts }: BrokerParts): Promise<Duplex> {
  const settings = tlsSettings(options.tls)
  const client = settings && clientTls(settings, host, parts)
  const address = await resolver.resolve(host)
  const socket = await connectSocket(address, port, CONNECT_MS)
  // MQTT has no half-closed connections: when the broker ends, so do we
  socket.once('end', () => socket.end())
  return client ? secureSocket(socket, client, hostPort(host, port), CONNECT_MS) : socket
}
