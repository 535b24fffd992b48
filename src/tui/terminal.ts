// The terminal in full-screen use: alternate screen, raw keys, no cursor. It is restored however the program ends: by a
// key, a signal, an exception, or a lost connection. Only SIGKILL leaves it changed (`reset` repairs that).
//
// Errors: no terminal on stdin or stdout is USAGE. A terminal that closes (SIGHUP, end of input, EIO) ends the program.
import { writeSync } from 'node:fs'
import { OsError } from '../lib/errors'
import { KeyReader } from './keys'
import { type Ink, inkOf } from './line'
import type { Paper } from './screen'

/** Alternate screen, no cursor, no line wrapping. */
const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const LEAVE = '\x1b[?2026l\x1b[H\x1b[2J\x1b[?7h\x1b[?25h\x1b[0m\x1b[?1049l'
const ENDING_SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const
/** how long the remaining bytes of a key's sequence may take over a slow line */
const ESCAPE_MS = 60
/** stderr lines of other parts of the program meanwhile; the newest are kept */
const MAX_HELD = 200

type Emitter = Pick<NodeJS.EventEmitter, 'on' | 'off'>

/** The parts of the process used here; tests pass others. */
export interface TerminalPorts {
  readonly input: Emitter & {
    readonly isTTY?: boolean
    setRawMode?(raw: boolean): unknown
    resume(): unknown
    pause(): unknown
  }
  readonly output: Emitter &
    Paper & {
      readonly isTTY?: boolean
      readonly columns?: number
      readonly rows?: number
      readonly fd?: number
    }
  readonly errors: { readonly isTTY?: boolean; write(text: string): boolean }
  readonly env: Record<string, string | undefined>
  /** signals and the end of the process */
  readonly events: Emitter
  /** stops the process group like Ctrl-Z; returns when it continues */
  suspend(): void
}

export const processPorts = (): TerminalPorts => ({
  input: process.stdin,
  output: process.stdout,
  errors: process.stderr,
  env: process.env,
  events: process,
  suspend: () => void process.kill(0, 'SIGTSTP'),
})

interface TerminalUser {
  key(name: string): void
  /** the screen must be redrawn completely: resized, or continued after a stop */
  redraw(): void
  /** the terminal or the process ends; `code` is the exit code */
  end(code: number): void
}

export class Terminal {
  readonly ink: Ink
  readonly #ports: TerminalPorts
  readonly #keys = new KeyReader()
  readonly #undo: (() => void)[] = []
  #escape: NodeJS.Timeout | undefined
  #user: TerminalUser | undefined
  #held: string[] = []

  constructor(ports: TerminalPorts) {
    this.#ports = ports
    this.ink = inkOf(ports.env)
  }

  get paper(): Paper {
    return this.#ports.output
  }

  /** A terminal that reports no size has the classic one. */
  get size(): { columns: number; rows: number } {
    const { columns, rows } = this.#ports.output
    return { columns: columns || 80, rows: rows || 24 }
  }

  /** Opens the terminal. Throws USAGE if there is none. */
  open(user: TerminalUser): void {
    const { input, output, env, events } = this.#ports
    if (!input.isTTY || !output.isTTY || env.TERM === 'dumb')
      throw new OsError('USAGE', 'this needs a terminal', { hint: 'os-node tui render prints the sections once' })
    this.#user = user
    this.#listen(input, 'data', (bytes: Buffer) => this.#typed(bytes))
    this.#listen(input, 'end', () => user.end(0))
    this.#listen(input, 'error', () => user.end(0))
    // a closed terminal accepts nothing more; its hangup or end of input ends the program
    this.#listen(output, 'error', () => user.end(0))
    this.#listen(output, 'resize', () => user.redraw())
    for (const [k, signal] of ENDING_SIGNALS.entries())
      this.#listen(events, signal, () => user.end(128 + ([1, 2, 3, 15][k] ?? 0)))
    this.#listen(events, 'SIGCONT', () => this.#enter())
    this.#listen(events, 'exit', () => this.#leave(true))
    this.#holdErrors()
    this.#enter()
  }

  /** Restores the terminal. Safe to call twice. */
  close(): void {
    clearTimeout(this.#escape)
    const opened = this.#undo.length > 0
    for (const undo of this.#undo.splice(0).reverse()) undo()
    if (opened) this.#leave(false)
    this.#user = undefined
    for (const text of this.#held.splice(0)) this.#ports.errors.write(text)
  }

  #listen<T extends unknown[]>(from: Emitter, event: string, listener: (...args: T) => void): void {
    from.on(event, listener as never)
    this.#undo.push(() => from.off(event, listener as never))
  }

  #enter(): void {
    const { input, output } = this.#ports
    // off and on: after a stop the shell has changed the mode, but the library assumes it is still raw
    input.setRawMode?.(false)
    input.setRawMode?.(true)
    input.resume()
    output.write(ENTER)
    this.#user?.redraw()
  }

  #leave(ending: boolean): void {
    const { input, output } = this.#ports
    try {
      input.setRawMode?.(false)
      if (!ending) input.pause()
      // an ending process flushes nothing more
      if (ending && output.fd !== undefined) writeSync(output.fd, LEAVE)
      else output.write(LEAVE)
    } catch {
      // the terminal is closed: nothing to restore
    }
  }

  #typed(bytes: Buffer): void {
    clearTimeout(this.#escape)
    for (const key of this.#keys.feed(bytes)) this.#key(key)
    if (this.#keys.waiting)
      this.#escape = setTimeout(() => {
        for (const key of this.#keys.flush()) this.#key(key)
      }, ESCAPE_MS)
  }

  #key(key: string): void {
    if (key === 'ctrl-z') this.#stop()
    else if (key === 'ctrl-l') this.#user?.redraw()
    else this.#user?.key(key)
  }

  #stop(): void {
    this.#leave(false)
    this.#ports.suspend()
    // runs when the process continues, or immediately if nothing stops it
    setTimeout(() => this.#user && this.#enter(), 50)
  }

  /** A log line would overwrite the screen: it is held until the terminal is restored. */
  #holdErrors(): void {
    const { errors } = this.#ports
    if (!errors.isTTY) return
    const { write } = errors
    errors.write = text => {
      this.#held.push(String(text))
      if (this.#held.length > MAX_HELD) this.#held.shift()
      return true
    }
    this.#undo.push(() => {
      errors.write = write
    })
  }
}
