// A program on a real pseudo-terminal: keys in, a screen out, sizes, signals, a hangup, and the line settings. A small C
// program creates the terminal (Node has no API for it), compiled at first use.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { compiled } from './compiled'
import { until } from './gateway'
import { Vt } from './vt'

export interface Ended {
  readonly code: number
  /** 0: not by a signal */
  readonly signal: number
}

export interface LineModes {
  /** line by line, as a shell needs it */
  readonly lines: boolean
  readonly echo: boolean
  readonly signals: boolean
}

export class Tty {
  readonly screen: Vt
  /** everything the program wrote */
  output = ''
  ended: Ended | undefined
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #decoder = new StringDecoder('utf8')
  readonly #asked: ((modes: LineModes) => void)[] = []
  #rest = Buffer.alloc(0)
  #problem: unknown

  constructor(
    command: readonly string[],
    {
      columns = 80,
      rows = 24,
      env = {},
      cwd,
    }: { columns?: number; rows?: number; env?: Record<string, string>; cwd?: string } = {},
  ) {
    this.screen = new Vt(columns, rows)
    this.#child = spawn(compiled('tty', ['-lutil']), [String(columns), String(rows), ...command], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, TERM: 'xterm', LANG: 'C.UTF-8', LC_ALL: '', NO_COLOR: '', OS_NODE_CONFIG: '', ...env },
      ...(cwd !== undefined && { cwd }),
    })
    this.#child.stdout.on('data', chunk => this.#events(chunk))
    this.#child.stdin.on('error', () => undefined) // the program has ended; `ended` says how
  }

  type(keys: string): void {
    this.#tell('w', Buffer.from(keys))
  }

  resize(columns: number, rows: number): void {
    this.screen.resize(columns, rows)
    this.#tell('r', Buffer.from([columns >> 8, columns & 255, rows >> 8, rows & 255]))
  }

  kill(signal: NodeJS.Signals): void {
    this.#tell('k', Buffer.from([constants.signals[signal]]))
  }

  hangUp(): void {
    this.#tell('h')
  }

  /** The current settings of the terminal. */
  modes(): Promise<LineModes> {
    return new Promise(resolve => {
      this.#asked.push(resolve)
      this.#tell('m')
    })
  }

  /** Waits until a complete screen contains a text; throws with the screen otherwise. */
  async shows(what: string | RegExp, ms = 90_000): Promise<string> {
    const there = (): boolean => {
      if (this.#problem) throw this.#problem
      if (this.screen.drawing) return false
      const text = this.screen.text()
      return typeof what === 'string' ? text.includes(what) : what.test(text)
    }
    await until(`the screen shows ${what}`, there, ms).catch(error => {
      throw new Error(`${error.message}\n${this.screen.text()}\n${JSON.stringify(this.ended ?? 'still running')}`)
    })
    return this.screen.text()
  }

  /** Waits until the program has ended. */
  end(ms = 90_000): Promise<Ended> {
    return until('the program ends', () => this.ended, ms)
  }

  /** Ends the program, if it still runs, and its terminal. */
  close(): void {
    this.#child.stdin.end()
  }

  #tell(op: string, bytes = Buffer.alloc(0)): void {
    this.#child.stdin.write(
      Buffer.concat([Buffer.from([op.charCodeAt(0), bytes.length >> 8, bytes.length & 255]), bytes]),
    )
  }

  #events(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= 3) {
      const length = this.#rest.readUInt16BE(1)
      if (this.#rest.length < 3 + length) return
      const op = String.fromCharCode(this.#rest[0]!)
      const bytes = this.#rest.subarray(3, 3 + length)
      this.#rest = this.#rest.subarray(3 + length)
      if (op === 'd') this.#wrote(this.#decoder.write(bytes))
      else if (op === 'x') this.ended = { code: bytes[0]!, signal: bytes[1]! }
      else
        this.#asked.shift()?.({ lines: (bytes[0]! & 1) > 0, echo: (bytes[0]! & 2) > 0, signals: (bytes[0]! & 4) > 0 })
    }
  }

  #wrote(text: string): void {
    this.output += text
    try {
      this.screen.write(text)
    } catch (error) {
      this.#problem ??= error
    }
  }
}
