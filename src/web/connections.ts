// Bounds the open connections (S9). At the limit the connection that has been idle for longest is closed for the new one,
// so a flood of idle sockets costs the flooder its own places and the page stays reachable; only when all of them are in
// the middle of an answer is the new one refused.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export class Connections {
  /** in the order of their last request, answers in the making */
  readonly #open = new Map<Socket, number>()
  #closing = false
  /** connections closed or refused at the limit */
  dropped = 0

  constructor(private readonly limit: number) {}

  get size(): number {
    return this.#open.size
  }

  watch(server: Server): void {
    server.on('connection', socket => {
      if (this.#open.size >= this.limit && !this.#dropIdle()) {
        this.dropped++
        socket.destroy()
        return
      }
      this.#open.set(socket, 0)
      socket.once('close', () => this.#open.delete(socket))
    })
    server.on('request', (req, res) => {
      this.#count(req.socket, 1)
      res.once('close', () => this.#count(req.socket, -1))
    })
  }

  /** Closes what is idle now, and the others after their answer. */
  closeIdle(): void {
    this.#closing = true
    for (const [socket, busy] of this.#open) if (busy === 0) socket.destroy()
  }

  #count(socket: Socket, by: number): void {
    const busy = this.#open.get(socket)
    if (busy === undefined) return
    this.#open.delete(socket)
    this.#open.set(socket, busy + by)
    // end, not destroy: the last bytes of the answer may still be on their way
    if (this.#closing && busy + by === 0) socket.end()
  }

  #dropIdle(): boolean {
    for (const [socket, busy] of this.#open) {
      if (busy > 0) continue
      this.#open.delete(socket)
      this.dropped++
      socket.destroy()
      return true
    }
    return false
  }
}
