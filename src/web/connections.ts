// Bounds the open connections (S9). At the limit the connection that has been idle for longest is closed for the new one,
// so a flood of idle sockets costs the flooder its own places and the page stays reachable; only when all of them are in
// the middle of an answer is the new one refused.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

interface Open {
  readonly socket: Socket
  /** answers in the making */
  busy: number
}

/** The same for a connection and for the encrypted one on top of it. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

export class Connections {
  /** by peer, in the order of their last request */
  readonly #open = new Map<string, Open>()
  #closing = false
  /** connections closed or refused at the limit */
  dropped = 0

  constructor(private readonly limit: number) {}

  get size(): number {
    return this.#open.size
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      if (this.#open.size >= this.limit && !this.#dropIdle()) {
        this.dropped++
        socket.destroy()
        return
      }
      const peer = peerOf(socket)
      const mine: Open = { socket, busy: 0 }
      this.#open.set(peer, mine)
      socket.once('close', () => {
        if (this.#open.get(peer) === mine) this.#open.delete(peer)
      })
    })
    server.on('request', (req, res) => {
      const peer = peerOf(req.socket)
      this.#count(peer, 1)
      res.once('close', () => this.#count(peer, -1))
    })
  }

  /** Closes what is idle now, and the others after their answer. */
  closeIdle(): void {
    this.#closing = true
    for (const { socket, busy } of this.#open.values()) if (busy === 0) socket.destroy()
  }

  #count(peer: string, by: number): void {
    const open = this.#open.get(peer)
    if (!open) return
    this.#open.delete(peer)
    this.#open.set(peer, open)
    open.busy += by
    // end, not destroy: the last bytes of the answer may still be on their way
    if (this.#closing && open.busy === 0) open.socket.end()
  }

  #dropIdle(): boolean {
    for (const [peer, { socket, busy }] of this.#open) {
      if (busy > 0) continue
      this.#open.delete(peer)
      this.dropped++
      socket.destroy()
      return true
    }
    return false
  }
}
