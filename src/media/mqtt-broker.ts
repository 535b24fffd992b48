// The broker of one link: its options made into a connection. Sender and listener share it.
import { connect, type Socket } from 'node:net'
import { OsError } from '../lib/errors'
import type { NodeIdentity } from '../links/contracts'
import { type Connection, type ConnectOptions, connectBroker } from './mqtt-connection'
import type { MqttOptions } from './mqtt-options'
import type { Party } from './mqtt-topics'
import { type HostResolver, hostPort } from './resolve'

export const PORT = 1883
const CONNECT_MS = 10_000

export interface BrokerParts {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly options: MqttOptions
  readonly identity: NodeIdentity
  readonly resolver: HostResolver
}

/** What a connection is made of beside the options: who connects, and what happens then. */
export type Session = Pick<ConnectOptions, 'clientId' | 'clean' | 'sessionExpiryS' | 'will' | 'onMessage' | 'onLost'>

/** `mqtt://broker`, with its port where it is not 1883 */
export const brokerAddress = ({ host, port }: BrokerParts): string =>
  `mqtt://${port === PORT ? host.replace(/^(?!\[)(.*:.*)$/, '[$1]') : hostPort(host, port)}`

export function partyOf({ aid, installId }: NodeIdentity): Party {
  return { aid: aid === null ? `new-${installId}` : String(aid), install: installId }
}

export function connectSession({ options, host, port, resolver }: BrokerParts, session: Session): Promise<Connection> {
  const { protocol_version, keepalive_s, username, password, max_in_flight } = options
  return connectBroker({
    ...session,
    openSocket: () => openSocket(host, port, resolver),
    versions: protocol_version === undefined ? [5, 4] : [protocol_version],
    keepaliveS: keepalive_s,
    username,
    password,
    maxUnsettled: max_in_flight,
  })
}

async function openSocket(host: string, port: number, resolver: HostResolver): Promise<Socket> {
  const { address, family } = await resolver.resolve(host)
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, family, noDelay: true, timeout: CONNECT_MS })
    const failed = (why: string, cause?: Error): void => {
      socket.destroy()
      reject(new OsError('NETWORK', `no connection to ${hostPort(address, port)}: ${why}`, { cause }))
    }
    const refused = (error: Error & { code?: string }): void => failed(error.code ?? error.message, error)
    const late = (): void => failed(`nothing within ${CONNECT_MS / 1000} s`)
    socket.once('error', refused)
    socket.once('timeout', late)
    socket.once('connect', () => {
      socket.off('error', refused)
      socket.off('timeout', late)
      socket.setTimeout(0)
      resolve(socket)
    })
  })
}
