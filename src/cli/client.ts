// Talks to a running gateway over its control socket (decision 0011). While it works on a request, the gateway reports that every
// few seconds; a gateway that is silent for half a minute is reported as TIMEOUT, a lost connection as NO_GATEWAY.

import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { socketPath } from '../gateway/control'
import { findOwner, type LockInfo, lockPath } from '../gateway/lock'
import { ERRORS, type ErrorCode, errno, OsError } from '../lib/errors'
import { readRegular } from '../lib/files'

export interface GatewayAnswer {
  readonly result?: Record<string, unknown>
  /** the result for people */
  readonly text?: string
  readonly exitCode: number
}

interface Request {
  readonly command: string
  readonly options: Record<string, unknown>
}

interface AskOptions {
  /** receives the rows of a streaming command; the next row is read after the promise resolves */
  onRow?(row: unknown): Promise<void> | void
  /** bytes done, and total bytes */
  progress?(done: number, total: number): void
  signal?: AbortSignal
  silenceMs?: number
}

/** Restores an error that the gateway serialized. */
function revive(value: unknown): OsError {
  const { error, code, hint, ...details } = (typeof value === 'object' && value !== null ? value : {}) as Record<
    string,
    unknown
  >
  const known = typeof code === 'string' && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'INTERNAL'
  return new OsError(known, String(error ?? 'the gateway gave no reason'), {
    ...(typeof hint === 'string' && { hint }),
    details,
  })
}

/** Sends one request on an open socket and waits for its answer. Closes the socket. */
export async function ask(socket: Socket, request: Request, options: AskOptions = {}): Promise<GatewayAnswer> {
  const { onRow, progress, signal, silenceMs = 30_000 } = options
  let failure: OsError | undefined
  const stop = (error: OsError): void => {
    failure ??= error
    socket.destroy()
  }
  const aborted = (): void => stop(new OsError('TIMEOUT', 'stopped'))
  if (signal?.aborted) aborted()
  signal?.addEventListener('abort', aborted)
  socket.on('error', error =>
    stop(new OsError('NO_GATEWAY', `the connection to the gateway was lost: ${error.message}`)),
  )
  let timer: NodeJS.Timeout | undefined
  const alive = (): void => {
    clearTimeout(timer)
    timer = setTimeout(
      () => stop(new OsError('TIMEOUT', `the gateway has not answered for ${silenceMs / 1000} s`)),
      silenceMs,
    )
  }
  alive()
  socket.write(`${JSON.stringify({ id: 1, ...request })}\n`)
  const lines = createInterface({ input: socket, crlfDelay: Infinity })
  // a destroyed socket never emits 'end', the only event that readline listens for
  socket.once('close', () => lines.close())
  try {
    for await (const line of lines) {
      alive()
      const answer = JSON.parse(line) as Record<string, unknown>
      if ('row' in answer) {
        clearTimeout(timer)
        await onRow?.(answer.row)
        alive()
      } else if (Array.isArray(answer.progress)) {
        progress?.(Number(answer.progress[0]), Number(answer.progress[1]))
      } else if ('ok' in answer) {
        if (answer.error !== undefined) throw revive(answer.error)
        const result = answer.result as Record<string, unknown> | undefined
        const text = typeof answer.text === 'string' ? { text: answer.text } : {}
        return { ...(result && { result }), ...text, exitCode: Number(answer.exit_code ?? (answer.ok ? 0 : 1)) }
      }
    }
  } catch (error) {
    if (error instanceof OsError || !(error instanceof SyntaxError)) throw failure ?? error
    throw new OsError('NO_GATEWAY', 'the program at the control socket is not a gateway', { cause: error })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', aborted)
    socket.destroy()
  }
  throw failure ?? new OsError('NO_GATEWAY', 'the gateway ended before it answered')
}

const noRight = (path: string, cause: unknown): OsError =>
  new OsError('FORBIDDEN', `no permission to connect to the gateway at ${path}`, {
    cause,
    hint: 'join the group of the gateway or use sudo',
  })

/** Throws FORBIDDEN without the right to read the lock: then it is unknown whether a gateway runs. */
function mayLook(path: string): void {
  try {
    readRegular(path)
  } catch (error) {
    const why = errno(error)
    if (why === 'EACCES' || why === 'EPERM') throw noRight(path, error)
  }
}

/** A connection, or undefined when there is no listener. */
function dial(path: string): Promise<Socket | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.setTimeout(2000, () => {
      socket.destroy()
      resolve(undefined)
    })
    socket.once('connect', () => {
      socket.setTimeout(0)
      socket.removeAllListeners('error')
      resolve(socket)
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EACCES' || error.code === 'EPERM') {
        reject(noRight(path, error))
      } else resolve(undefined)
    })
  })
}

interface Found {
  readonly socket?: Socket
  /** the owner of the data directory if there is no listener */
  readonly owner?: LockInfo
}

/** Searches once for the gateway of a data directory. */
export async function findGateway(dataDir: string): Promise<Found> {
  mayLook(lockPath(dataDir))
  const owner = await findOwner(dataDir)
  if (!owner) return {}
  const socket = owner.role === 'command' ? undefined : await dial(owner.socket ?? socketPath(dataDir))
  return socket ? { socket, owner } : { owner }
}

/**
 * Waits while the owner is starting or, for a command that changes files, while another short command has the
 * directory. Throws LOCKED on a time-out.
 */
export async function waitForGateway(
  dataDir: string,
  { waitMs, changes, signal }: { waitMs: number; changes: boolean; signal?: AbortSignal },
): Promise<Socket | undefined> {
  const until = performance.now() + waitMs
  for (;;) {
    const { socket, owner } = await findGateway(dataDir)
    if (socket || !owner || (owner.role === 'command' && !changes)) return socket
    if (performance.now() >= until || signal?.aborted) {
      const what = owner.role === 'command' ? 'holds the data directory' : 'does not answer'
      throw new OsError('LOCKED', `process ${owner.pid} (os-node ${owner.role}) ${what}: ${dataDir}`, {
        hint: 'try again; if it persists, end that process',
        details: { pid: owner.pid },
      })
    }
    await sleep(100)
  }
}
