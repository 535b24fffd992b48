// The lock where its file cannot be written (R30): a socket with an abstract name made of the data directory's real path. The
// kernel gives such a name to one process and takes it back when that ends, so no lock is left behind. Who connects gets what
// the lock file would hold.
//
// What fails: only Linux has these names, and each network namespace has its own; elsewhere the start fails as it did before.
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { basename, dirname, join, resolve } from 'node:path'
import { errno } from '../lib/errors'

interface LockSocket {
  readonly listening: boolean
  close(): void
}

const ANSWER_MS = 1000

/** The real path, also of a folder that cannot be made. */
function realPath(dir: string): string {
  try {
    return realpathSync(dir)
  } catch {
    const above = dirname(resolve(dir))
    return above === resolve(dir) ? above : join(realPath(above), basename(dir))
  }
}

/** The kernel takes 107 bytes, so the path itself may be too long. */
const nameOf = (dataDir: string): string =>
  `\0os-node-lock:${createHash('sha256').update(realPath(dataDir)).digest('hex').slice(0, 32)}`

/** Takes the name; null when another process has it. `text` is what those who connect get. Throws the system's errors. */
export function listenAsOwner(dataDir: string, text: () => string): Promise<LockSocket | null> {
  const server = createServer(socket => {
    socket.on('error', () => socket.destroy())
    socket.end(text())
  })
  return new Promise((made, failed) => {
    server.once('error', error => (errno(error) === 'EADDRINUSE' ? made(null) : failed(error)))
    server.listen(nameOf(dataDir), () => {
      server.on('error', () => undefined) // no descriptor for one that asks: it asks again
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

/** What the owner says; '' when it says nothing for a second, undefined when no process has the name. */
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
