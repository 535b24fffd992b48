// What a node asks a server over UDP: its id, the time, one reply to any packet. Answers null when none came; `lastError`
// then says why. And what comes back by the media that dispatch sends through: their peers are the node's servers too.
import { isIP } from 'node:net'
import type { ConfigStore } from '../config/store'
import { asOsError, OsError } from '../lib/errors'
import type { PacketHandler } from '../links/contracts'
import type { HandshakeManager } from '../protocol/handshake/manager'
import { type DeviceRole, sendRefusal } from '../protocol/handshake/roles'
import { COMMAND } from '../wire/commands'
import { askOverUdp, type RequestLoop } from './ask'
import type { UdpRequest } from './types'

export class NodeRequests {
  lastError: OsError | null = null
  readonly #store: ConfigStore
  readonly #request: UdpRequest
  readonly #protocol: HandshakeManager
  readonly #role: DeviceRole
  /** where dispatchWithReply sent last */
  #asked = ''
  /** whom each medium of dispatch sends to, as it writes addresses */
  readonly #peers = new Map<string, string>()

  constructor(store: ConfigStore, request: UdpRequest, protocol: HandshakeManager, role: DeviceRole) {
    this.#store = store
    this.#request = request
    this.#protocol = protocol
    this.#role = role
  }

  /**
   * Whether an address may be that of the server this node talks to. A caller who names none vouches for the packet; of a
   * server known by name only the port can be compared.
   */
  isServer(addr: unknown): boolean {
    if (addr === null || addr === undefined) return true
    const { host, port } = this.#server(null, null)
    const from = Array.isArray(addr) ? addr.join(':') : String(addr)
    if ([...this.#peers.values()].includes(from)) return true
    return from === this.#asked || (isIP(host) ? from === `${host}:${port}` : from.endsWith(`:${port}`))
  }

  /** A packet that came back by a medium of dispatch: it is taken and answered like any other (X7, X9). */
  readonly received: PacketHandler = (packet, { medium, address, reply }) => {
    this.#peers.set(medium, address)
    void this.#protocol.dispatch(packet, address).then(({ response }) => response && reply(response))
  }

  id(host: string, port: number, meta: Record<string, unknown>, timeout: number): Promise<number | null> {
    return this.#ask(COMMAND.ID_REQUEST, host, port, timeout, (send, recv) =>
      this.#protocol.requestIdViaTransport(send, recv, meta, timeout),
    )
  }

  time(serverIp: string | null, serverPort: number | null, timeout: number): Promise<number | null> {
    const { host, port } = this.#server(serverIp, serverPort)
    return this.#ask(COMMAND.TIME_REQUEST, host, port, timeout, (send, recv) =>
      this.#protocol.requestTimeViaTransport(send, recv, timeout),
    )
  }

  /** One packet and one reply, which also goes through the protocol. */
  async reply(
    packet: Uint8Array,
    serverIp: string | null,
    serverPort: number | null,
    timeout: number,
  ): Promise<Uint8Array | null> {
    this.lastError = sendRefusal(this.#role, packet[0])
    if (this.lastError) return null
    const { host, port } = this.#server(serverIp, serverPort)
    this.#asked = `${host}:${port}`
    try {
      const reply = await this.#request(host, port, packet, timeout * 1000, undefined, error => {
        this.lastError = error
      })
      if (reply) this.#protocol.classifyAndDispatch(reply, this.#asked)
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

  async #ask<T>(cmd: number, host: string, port: number, timeout: number, loop: RequestLoop<T>): Promise<T | null> {
    this.lastError = sendRefusal(this.#role, cmd)
    if (this.lastError) return null
    const fail = (error: OsError): void => {
      this.lastError = error
    }
    const answer = await askOverUdp(this.#request, { host, port, timeoutMs: timeout * 1000 }, fail, loop)
    if (answer === null) this.lastError ??= new OsError('NO_REPLY', `${host}:${port} did not answer`)
    return answer
  }
}
