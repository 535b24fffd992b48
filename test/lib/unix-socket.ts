// An AF_UNIX socket that receives datagrams, as systemd's does: Node has no API for it, so a small C program reads it, compiled at
// first use.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { compiled } from './compiled'

/** `at`: CLOCK_MONOTONIC in µs when it was read */
type OnDatagram = (bytes: Buffer, at: number) => void

const HEAD_BYTES = 10

export class UnixDatagramSocket {
  readonly #child: ChildProcessByStdio<null, Readable, null>
  #rest = Buffer.alloc(0)

  private constructor(path: string) {
    this.#child = spawn(compiled('unix-socket'), [path], { stdio: ['ignore', 'pipe', 'inherit'] })
  }

  /** `path`: of a socket to create, or @name: in the abstract name space. Rejects when it cannot be bound. */
  static async bind(path: string, onDatagram: OnDatagram): Promise<UnixDatagramSocket> {
    const socket = new UnixDatagramSocket(path)
    await new Promise<void>((resolve, reject) => {
      socket.#child.once('error', reject)
      socket.#child.once('exit', code => reject(new Error(`${path} cannot be bound (${code})`)))
      let isBound = false
      socket.#child.stdout.on('data', chunk => {
        socket.#read(chunk, (bytes, at) => {
          if (isBound) onDatagram(bytes, at)
          isBound = true
        })
        resolve()
      })
    })
    return socket
  }

  /** Reads no further datagrams. */
  freeze(): void {
    this.#child.kill('SIGSTOP')
  }

  close(): void {
    this.#child.kill('SIGKILL')
  }

  #read(chunk: Buffer, onDatagram: OnDatagram): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + this.#rest.readUInt16BE(8)
      if (this.#rest.length < end) return
      onDatagram(this.#rest.subarray(HEAD_BYTES, end), Number(this.#rest.readBigUInt64BE(0)))
      this.#rest = this.#rest.subarray(end)
    }
  }
}
