// A disk for qemu over the network block device protocol (doc/proto.md of NetworkBlockDevice/nbd), on a UNIX socket: the handshake
// "fixed newstyle", simple replies, and the commands READ, WRITE with FUA, FLUSH and DISC. Discarded blocks of a guest keep
// their content.
// Errors: another client or command gets an error of the protocol; a client that violates it loses its connection.
import { createServer, type Server, type Socket } from 'node:net'
import type { VolatileDisk } from './volatile-disk'

const OPTION = 0x49484156454f5054n // IHAVEOPT
const [FIXED_NEWSTYLE, NO_ZEROES] = [1, 2]
const [EXPORT_NAME, ABORT, INFO, GO] = [1, 2, 6, 7]
const [ACKNOWLEDGED, ABOUT, UNSUPPORTED] = [1, 3, 0x80000001]
/** HAS_FLAGS, SEND_FLUSH, SEND_FUA */
const ABILITIES = 1 | 4 | 8
const REQUEST = 0x25609513
const [READ, WRITE, DISCONNECT, FLUSH] = [0, 1, 2, 3]
const FUA = 1
const [EIO, EINVAL] = [5, 22]
const MOST = 32 * 2 ** 20

/** The bytes of a connection, read in pieces of a requested length. */
class Incoming {
  #parts: Buffer[] = []
  #length = 0

  push(part: Buffer): void {
    this.#parts.push(part)
    this.#length += part.length
  }

  has(length: number): boolean {
    return this.#length >= length
  }

  take(length: number): Buffer {
    const all = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    this.#parts = [all.subarray(length)]
    this.#length -= length
    return all.subarray(0, length)
  }
}

type Step = { readonly needs: number; run(bytes: Buffer): Step }

/** One connection: each step defines how many bytes it needs, and handles them. */
function talk(socket: Socket, disk: VolatileDisk): void {
  let noZeroes = false

  const number32 = (value: number): Buffer => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value >>> 0)
    return bytes
  }
  const sizeAndFlags = (): Buffer => {
    const bytes = Buffer.alloc(10)
    bytes.writeBigUInt64BE(BigInt(disk.size))
    bytes.writeUInt16BE(ABILITIES, 8)
    return bytes
  }
  const answer = (option: number, kind: number, data = Buffer.alloc(0)): void => {
    const head = [Buffer.from('0003e889045565a9', 'hex'), number32(option), number32(kind), number32(data.length)]
    socket.write(Buffer.concat([...head, data]))
  }

  const options: Step = {
    needs: 16,
    run(head) {
      if (head.readBigUInt64BE() !== OPTION) throw new Error('no option')
      const option = head.readUInt32BE(8)
      const length = head.readUInt32BE(12)
      if (length > MOST) throw new Error('an option that is too long')
      return {
        needs: length,
        run() {
          if (option === EXPORT_NAME) {
            socket.write(Buffer.concat([sizeAndFlags(), Buffer.alloc(noZeroes ? 0 : 124)]))
            return requests
          }
          if (option === INFO || option === GO) {
            answer(option, ABOUT, Buffer.concat([Buffer.alloc(2), sizeAndFlags()]))
            answer(option, ACKNOWLEDGED)
            return option === GO ? requests : options
          }
          answer(option, option === ABORT ? ACKNOWLEDGED : UNSUPPORTED)
          if (option === ABORT) socket.end()
          return options
        },
      }
    },
  }

  const requests: Step = {
    needs: 28,
    run(head) {
      if (head.readUInt32BE() !== REQUEST) throw new Error('no request')
      const flags = head.readUInt16BE(4)
      const command = head.readUInt16BE(6)
      const cookie = Buffer.from(head.subarray(8, 16))
      const at = Number(head.readBigUInt64BE(16))
      const length = head.readUInt32BE(24)
      const reply = (act: () => unknown): void => {
        let error = 0
        let data: Buffer | undefined
        try {
          const result = act()
          if (Buffer.isBuffer(result)) data = result
        } catch (cause) {
          error = cause instanceof RangeError ? EINVAL : EIO
        }
        const start = [Buffer.from('67446698', 'hex'), number32(error), cookie]
        socket.write(Buffer.concat(data ? [...start, data] : start))
      }
      if (command === DISCONNECT) socket.end()
      else if (command === READ) reply(() => disk.read(at, length))
      else if (command === FLUSH) reply(() => disk.flush())
      else if (command !== WRITE)
        reply(() => {
          throw new RangeError('no such command')
        })
      else if (length > MOST) throw new Error('a write that is too long')
      else
        return {
          needs: length,
          run(bytes) {
            // copied, since they are part of the received buffer and the cache keeps them
            reply(() => disk.write(at, Buffer.from(bytes), (flags & FUA) !== 0))
            return requests
          },
        }
      return requests
    },
  }

  let step: Step = {
    needs: 4,
    run(flags) {
      noZeroes = (flags.readUInt32BE() & NO_ZEROES) !== 0
      return options
    },
  }
  const incoming = new Incoming()
  socket.on('error', () => {})
  socket.on('data', part => {
    incoming.push(part)
    try {
      while (incoming.has(step.needs) && !socket.destroyed) step = step.run(incoming.take(step.needs))
    } catch {
      socket.destroy()
    }
  })
  socket.write(Buffer.concat([Buffer.from('NBDMAGICIHAVEOPT'), Buffer.of(0, FIXED_NEWSTYLE | NO_ZEROES)]))
}

export interface ServedDisk {
  /** Cuts the connection: unanswered commands are never executed. */
  disconnect(): void
  close(): void
}

/** Serves `disk` on the socket `path`. */
export function serveDisk(path: string, disk: VolatileDisk): Promise<ServedDisk> {
  const clients = new Set<Socket>()
  const server: Server = createServer(socket => {
    clients.add(socket.once('close', () => clients.delete(socket)))
    talk(socket, disk)
  })
  const disconnect = (): void => {
    for (const socket of clients) socket.removeAllListeners('data').destroy()
  }
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      resolve({
        disconnect,
        close() {
          disconnect()
          server.close()
        },
      })
    })
  })
}
