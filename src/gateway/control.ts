// The control socket of a running gateway (decision 0011): JSON lines over `<data>/os-node.sock`, for members of its group (mode 0660).
// A request is {id, command, options} or {id, argv}; the answer is {id, ok, result | error, exit_code}. A command with many
// rows sends {id, row} lines first, at the reader's pace. While a command runs, {id, working: true} is sent every few
// seconds, so that a client can distinguish a slow answer from a dead gateway.
// Errors: a line that is too long or not JSON is answered with an error. No input can stop the gateway. A client that
// disconnects aborts its command.
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { asOsError, errno, OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import { diskFault } from '../lib/writable'

export interface ControlRequest {
  readonly id: unknown
  /** the verb's name, for example 'log verify' */
  readonly command?: string
  readonly options?: Record<string, unknown>
  /** a command line that the gateway parses, instead of command and options */
  readonly argv?: readonly string[]
}

export interface ControlAnswer {
  readonly result?: unknown
  /** sent one by one before the answer */
  readonly rows?: AsyncIterable<unknown> | Iterable<unknown>
  /** the result as text for people */
  readonly text?: string
  readonly exitCode?: number
}

/** What a running request uses: the abort signal and the progress report. */
export interface ControlWatch {
  /** aborted when the client disconnects */
  readonly signal: AbortSignal
  /** reports progress to the client */
  progress(done: number, total: number): void
}

export interface ControlOptions {
  dataDir: string
  run(request: ControlRequest, watch: ControlWatch): Promise<ControlAnswer>
  logger?: Logger
  maxLineBytes?: number
  workingMs?: number
}

export interface ControlServer {
  /** path of the socket; differs from `<data>/os-node.sock` if that is too long for the kernel */
  readonly path: string
  close(): Promise<void>
}

/** sockaddr_un is limited to 108 bytes including the closing NUL; on some systems 104 */
const MAX_PATH_BYTES = 100
const MAX_CLIENTS = 32
/** queued requests per client */
const MAX_WAITING = 16

export const socketPath = (dataDir: string): string => join(dataDir, 'os-node.sock')

/**
 * Candidate paths of the socket, best first. Outside of the data directory mkdtemp creates a folder that only this user can
 * enter, so no other user can put a socket there.
 */
function* places(dataDir: string): Generator<string> {
  const usual = socketPath(dataDir)
  if (Buffer.byteLength(usual) <= MAX_PATH_BYTES) yield usual
  for (const base of [tmpdir(), '/tmp', '/run', '/dev/shm'])
    if (Buffer.byteLength(base) <= MAX_PATH_BYTES - 24) yield join(mkdtempSync(join(base, 'os-node-')), 's')
}

/** Listens on the first path whose file system allows it. */
async function listenSomewhere(server: Server, dataDir: string, logger: Logger): Promise<string> {
  const faults: unknown[] = []
  const all = places(dataDir)
  for (;;) {
    try {
      const { value: path, done } = all.next()
      if (done) throw faults[0]
      rmSync(path, { force: true })
      await listen(server, path)
      if (faults.length > 0) logger.warn(`the control socket is ${path}: ${asOsError(faults[0]).message}`)
      return path
    } catch (error) {
      if (!diskFault(error) || faults.includes(error)) throw error
      faults.push(error)
    }
  }
}

/** Starts listening. The caller owns the data directory's lock, so an existing socket file belongs to a dead process. */
export async function startControl(options: ControlOptions): Promise<ControlServer> {
  const { dataDir, logger = silentLogger } = options
  const clients = new Set<Socket>()
  const server = createServer(socket => {
    clients.add(socket)
    socket.on('close', () => clients.delete(socket))
    talk(socket, options, logger)
  })
  server.maxConnections = MAX_CLIENTS
  const path = await listenSomewhere(server, dataDir, logger)
  server.on('error', error => logger.error(`control socket: ${asOsError(error).message}`))
  return {
    path,
    close: () =>
      new Promise(resolve => {
        server.close(() => {
          try {
            rmSync(path, { force: true })
            if (dirname(path) !== dataDir) rmSync(dirname(path), { force: true, recursive: true })
          } catch (error) {
            logger.warn(`${path} cannot be removed: ${asOsError(error).message}`)
          }
          resolve()
        })
        for (const socket of clients) socket.destroy()
      }),
  }
}

async function listen(server: Server, path: string): Promise<void> {
  // a narrow umask: the socket must never be open to other users, not even for a moment
  const old = process.umask(0o117)
  try {
    server.listen(path)
  } finally {
    process.umask(old)
  }
  try {
    await once(server, 'listening')
    chmodSync(path, 0o660)
  } catch (cause) {
    if (server.listening) server.close()
    throw new OsError('DATA_DIR', `${path} cannot listen (${errno(cause) ?? 'unknown reason'})`, { cause })
  }
}

function talk(socket: Socket, { run, maxLineBytes = 1 << 20, workingMs = 5000 }: ControlOptions, logger: Logger): void {
  const gone = new AbortController()
  let parts: Buffer[] = []
  let held = 0
  let work = Promise.resolve()
  let refused = false
  let waiting = 0

  const send = async (line: Record<string, unknown>): Promise<void> => {
    if (gone.signal.aborted) throw new OsError('INTERNAL', 'the client disconnected')
    if (socket.write(`${JSON.stringify(line)}\n`)) return
    // if the client disconnects, the next line throws
    await once(socket, 'drain', { signal: gone.signal }).catch(() => undefined)
  }

  const handle = async (line: string): Promise<void> => {
    let id: unknown = null
    let beat: NodeJS.Timeout | undefined
    try {
      const request = parseRequest(line)
      id = request.id
      beat = setInterval(() => {
        if (!gone.signal.aborted && socket.writableLength === 0)
          socket.write(`${JSON.stringify({ id, working: true })}\n`)
      }, workingMs)
      // this timer must not keep the process alive for a command that ignores its signal
      beat.unref()
      let percent = 0
      const progress = (done: number, total: number): void => {
        const now = Math.floor((100 * done) / Math.max(1, total))
        // skip progress reports for a client that reads slowly
        if (now <= percent || gone.signal.aborted || socket.writableLength > 0) return
        percent = now
        socket.write(`${JSON.stringify({ id, working: true, progress: [done, total] })}\n`)
      }
      const { result, rows, text, exitCode = 0 } = await run(request, { signal: gone.signal, progress })
      for await (const row of rows ?? []) await send({ id, row })
      const reported = { ...(result !== undefined && { result }), ...(text !== undefined && { text }) }
      await send({ id, ok: exitCode === 0, ...reported, exit_code: exitCode })
    } catch (thrown) {
      const error = asOsError(thrown)
      if (gone.signal.aborted) return logger.debug(`control: ${error.message}`)
      if (error.code === 'INTERNAL') logger.error(`control: ${error.message}`)
      await send({ id, ok: false, error: error.toJSON(), exit_code: error.traits.exit })
    } finally {
      clearInterval(beat)
    }
  }

  const take = (line: string): void => {
    if (line.trim() === '') return
    // requests run one after another; stop reading from a client that sends faster than it is answered
    if (++waiting >= MAX_WAITING) socket.pause()
    work = work
      .then(() => handle(line))
      .catch(error => logger.debug(`control: ${asOsError(error).message}`))
      .then(() => {
        waiting--
        if (waiting < MAX_WAITING) socket.resume()
      })
  }

  socket.on('data', (chunk: Buffer) => {
    if (refused) return
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, at))
      held += at - from
      if (held <= maxLineBytes) take(Buffer.concat(parts).toString('utf8'))
      else refused = true
      parts = []
      held = 0
      from = at + 1
    }
    parts.push(chunk.subarray(from))
    held += chunk.length - from
    if (held > maxLineBytes || refused) {
      refused = true
      parts = []
      const error = new OsError('BAD_REQUEST', `a request is at most ${maxLineBytes} bytes`)
      socket.end(`${JSON.stringify({ id: null, ok: false, error: error.toJSON(), exit_code: error.traits.exit })}\n`)
    }
  })
  socket.on('error', error => logger.debug(`control client: ${error.message}`))
  socket.on('close', () => gone.abort())
}

const isText = (value: unknown): value is string => typeof value === 'string'

/** Parses one line of a client. Throws BAD_REQUEST. */
export function parseRequest(line: string): ControlRequest {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (cause) {
    throw new OsError('BAD_REQUEST', 'a request must be one JSON object per line', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new OsError('BAD_REQUEST', 'a request must be one JSON object per line')
  }
  const { id = null, command, options, argv } = value as Record<string, unknown>
  if (Array.isArray(argv) && argv.every(isText)) return { id, argv }
  if (!isText(command)) throw new OsError('BAD_REQUEST', 'a request needs command or argv')
  if (options !== undefined && (typeof options !== 'object' || options === null || Array.isArray(options))) {
    throw new OsError('BAD_REQUEST', 'options must be an object')
  }
  return { id, command, options: (options ?? {}) as Record<string, unknown> }
}
