// The lock if its file cannot be written (R30): an abstract socket, named after the data directory's real path. The kernel
// gives such a name to one process and frees it when that process ends, so no stale lock remains. A client that connects gets
// the content of the lock file.
//
// Errors: only Linux has abstract sockets, and each network namespace has its own; elsewhere the start fails as without this
// module.
import { createHash } from 'node:crypto'
import { connect, createServer } from 'node:net'
import { resolve } from 'node:path'
import { errno } from '../lib/errors'
import { realPath } from '../lib/files'

interface LockSocket {
  readonly listening: boolean
  close(): void
}

const ANSWER_MS = 1000

/** The kernel accepts 107 bytes, and the path may be longer. The folder may not exist. */
const nameOf = (dataDir: string): string =>
  `\0os-node-lock:${createHash('sha256')
    .update(realPath(resolve(dataDir)))
    .digest('hex')
    .slice(0, 32)}`

/** Takes the name; null if another process has it. `text` returns the content sent to clients. Throws the system's errors. */
export function listenAsOwner(dataDir: string, text: () => string): Promise<LockSocket | null> {
  const server = createServer(socket => {
    socket.on('error', () => socket.destroy())
    socket.end(text())
  })
  return new Promise((made, failed) => {
    server.once('error', error => (errno(error) === 'EADDRINUSE' ? made(null) : failed(error)))
    server.listen(nameOf(dataDir), () => {
      server.on('error', () => undefined) // no descriptor left for this client: it retries
      server.unref()
      made({
        get listening() {
          return server.listening
        },
        close: () => void server.close(),
      })
    })
  })
}

/** The owner's text; '' if it sends nothing for a second, undefined if no process has the name. */
export function askOwner(dataDir: string): Promise<string | undefined> {
  return new Promise(resolve => {
    let text = ''
    let taken = false
    const socket = connect(nameOf(dataDir))
    const done = (): void => {
      socket.destroy()
      resolve(taken ? text : undefined)
    }
    const timer = setTimeout(done, ANSWER_MS)
    socket.setEncoding('utf8')
    socket.once('connect', () => {
      taken = true
    })
    socket.on('data', part => {
      text += part
    })
    socket.once('error', done)
    socket.once('close', () => {
      clearTimeout(timer)
      done()
    })
  })
}
