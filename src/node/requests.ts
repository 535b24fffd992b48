// A node's requests to a server over UDP: its id, the time, one reply to any packet. Returns null if none arrived;
// `lastError` then has the reason. It also handles packets that arrive through the media of dispatch, because their
// peers are the node's servers too.
import { isIP } from 'node:net'
import type { ConfigStore } from '../config/config-store'
import { ensureDeviceId } from '../config/device'
import { isAssigned } from '../lib/assigned-id'
import { within } from '../lib/deadline'
import { asOsError, OsError } from '../lib/errors'
import { systemTimers } from '../lib/timers'
import type { PacketHandler } from '../links/contracts'
import { parseNackReason } from '../protocol/control'
import type { HandshakeManager } from '../protocol/handshake/manager'
import { type DeviceRole, sendRefusal } from '../protocol/handshake/roles'
import { addressText } from '../protocol/ids/service'
import { COMMAND } from '../wire/commands'
import { serverName, serverOf } from './transporters'
import type { UdpRequest } from './types'

type RequestLoop<T> = (
  send: (packet: Uint8Array) => void,
  recv: (seconds: number) => Promise<Uint8Array | null>,
) => Promise<T | null>

interface NodeRequestsOptions {
  readonly role: DeviceRole
  /** encrypts a packet for that server; throws if it must not be sent there */
  outgoing(packet: Uint8Array, server: string): Uint8Array
}

export class NodeRequests {
  lastError: OsError | null = null
  readonly #store: ConfigStore
  readonly #request: UdpRequest
  readonly #protocol: HandshakeManager
  readonly #options: NodeRequestsOptions
  /** destination of the last dispatchWithReply */
  #requested = ''
  /** the same as the name of a server with keys */
  #requestedServer = ''
  /** the medium of the packet being handled */
  #medium: string | null = null
  /** the peer address of each medium of dispatch */
  readonly #peers = new Map<string, string>()

  constructor(store: ConfigStore, request: UdpRequest, protocol: HandshakeManager, options: NodeRequestsOptions) {
    this.#store = store
    this.#request = request
    this.#protocol = protocol
    this.#options = options
  }

  /**
   * Whether an address may be that of the server this node talks to. Without an address the caller is
   * responsible for the packet; for a server known by name only the port can be compared.
   */
  isServer(addr: unknown): boolean {
    const from = addressText(addr)
    if (from === null) return true
    const { host, port } = this.#server(null, null)
    if ([...this.#peers.values()].includes(from)) return true
    return from === this.#requested || (isIP(host) ? from === `${host}:${port}` : from.endsWith(`:${port}`))
  }

  /** Handles a packet received by a medium of dispatch like any other (X7, X9). */
  readonly received: PacketHandler = (packet, { medium, address, reply }) => {
    this.#peers.set(medium, address)
    this.#medium = medium
    const taken = this.#protocol.dispatch(packet, address)
    this.#medium = null
    void taken.then(({ response }) => response && reply(response))
  }

  /** The server that sends packets from an address; null: the usual one. */
  serverAt(addr: unknown): string | null {
    if (this.#medium !== null) return serverOf(this.#store, this.#medium)
    const from = addressText(addr)
    if (from === null) return null
    if (from === this.#requested) return this.#requestedServer
    const medium = [...this.#peers].find(([, address]) => address === from)?.[0]
    return medium === undefined ? null : serverOf(this.#store, medium)
  }

  /** Stores the id in Config.json. True if there is one; false with the reason in `lastError`. */
  async id(host: string, port: number, meta: Record<string, unknown> | null, timeout: number): Promise<boolean> {
    if (isAssigned(this.#store.get('assigned_id'))) return true
    let own: string
    try {
      own = ensureDeviceId(this.#store)
    } catch (error) {
      // the server would assign an id to a name that is not stored, and it would be lost
      this.lastError = asOsError(error)
      return false
    }
    const aid = await this.#ask(COMMAND.ID_REQUEST, host, port, timeout, (send, recv) =>
      this.#protocol.requestIdViaTransport(send, recv, { device_id: own, ...meta }, timeout),
    )
    if (aid === null) return false
    this.#store.set('assigned_id', aid)
    return true
  }

  time(serverIp: string | null, serverPort: number | null, timeout: number): Promise<number | null> {
    const { host, port } = this.#server(serverIp, serverPort)
    return this.#ask(COMMAND.TIME_REQUEST, host, port, timeout, (send, recv) =>
      this.#protocol.requestTimeViaTransport(send, recv, timeout),
    )
  }

  /** One packet and one reply, which is also handled by the protocol. */
  async reply(
    packet: Uint8Array,
    serverIp: string | null,
    serverPort: number | null,
    timeout: number,
  ): Promise<Uint8Array | null> {
    this.lastError = sendRefusal(this.#options.role, packet[0])
    if (this.lastError) return null
    const { host, port } = this.#server(serverIp, serverPort)
    this.#requested = `${host}:${port}`
    this.#requestedServer = serverName('UDP', host, port)
    try {
      const out = this.#options.outgoing(packet, this.#requestedServer)
      const reply = await this.#request(host, port, out, timeout * 1000, undefined, error => {
        this.lastError = error
      })
      if (reply) this.#protocol.classifyAndDispatch(reply, this.#requested)
      return reply
    } catch (error) {
      this.lastError = asOsError(error, 'NETWORK')
      return null
    }
  }

  #server(host: string | null, port: number | null): { host: string; port: number } {
    return {
      host: host ?? (this.#store.get<string>('Client_Core.server_host') || '127.0.0.1'),
      port: port ?? (this.#store.get<number>('Client_Core.server_port') || 8080),
    }
  }

  /**
   * Runs a request loop of the protocol over one-shot UDP exchanges: each send is a separate exchange that waits for its
   * reply. `lastError` is also the reason of an exchange without reply, and of a refusal.
   */
  async #ask<T>(cmd: number, host: string, port: number, timeout: number, loop: RequestLoop<T>): Promise<T | null> {
    this.lastError = sendRefusal(this.#options.role, cmd)
    if (this.lastError) return null
    const replies: Uint8Array[] = []
    let wake = (): void => undefined
    const fail = (error: OsError): void => {
      this.lastError = error
    }
    const send = (packet: Uint8Array): void => {
      // request() never rejects: a failure is passed to `fail` and the reply is null
      void this.#request(host, port, packet, timeout * 1000, undefined, fail).then(reply => {
        if (reply) replies.push(reply)
        if (reply?.[0] === COMMAND.HANDSHAKE_NACK)
          fail(new OsError('ID_ALLOC_FAILED', `${host}:${port} refused: ${parseNackReason(reply)}`))
        wake()
      })
    }
    const recv = async (seconds: number): Promise<Uint8Array | null> => {
      const arrived = new Promise<void>(resolve => (wake = resolve))
      if (replies.length === 0) await within(systemTimers, seconds * 1000, arrived, () => undefined)
      return replies.shift() ?? null
    }
    const answer = await loop(send, recv)
    if (answer === null) this.lastError ??= new OsError('NO_REPLY', `${host}:${port} did not answer`)
    return answer
  }
}
