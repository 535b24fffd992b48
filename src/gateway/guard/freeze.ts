// Ends a process whose event loop is frozen (R23), since the process cannot do that itself. A small thread checks a counter
// that the loop increments every tenth of the limit (each check wakes the processor twice). If the counter does not change
// for too long, the thread reports it on stderr and sends SIGALRM, which ends the process immediately, with a distinct exit
// status (142 in a shell) and without a core dump; the log survives that.
//
// Not a freeze: a sleeping machine or a stopped process (the thread itself did not run: its wait took far longer than
// requested), a main thread that waits for a slow disk (state D), an open debugger. If the thread cannot be started, that is
// logged and the gateway runs without it.
//
// Before the end the thread queries the engine for the stack of the loop and stores it on flash for the next start, which
// then disables the plugin that blocked. A loop inside a system call cannot answer; the process is ended without a stack.
import { unlinkSync } from 'node:fs'
import { url } from 'node:inspector'
import { Worker } from 'node:worker_threads'
import { errno } from '../../lib/errors'
import { readRegular } from '../../lib/files'
import type { Logger } from '../../lib/logger'

const BEAT_MS = { least: 1000, most: 5000 }
const CELLS = { beat: 0, stop: 1, limitMs: 2, debugged: 3, beatMs: 4 } as const

interface WatchData {
  cells: Int32Array
  pid: number
  note: string | undefined
}

/** Runs in the thread. Its text is the thread's program, so it must use nothing from outside. */
function watch(
  threads: typeof import('node:worker_threads'),
  fs: typeof import('node:fs'),
  inspect: () => typeof import('node:inspector'),
): void {
  const { cells, pid, note } = threads.workerData as WatchData
  const waitsForDisk = (): boolean => {
    try {
      const stat = fs.readFileSync(`/proc/self/task/${pid}/stat`, 'utf8')
      return stat.charAt(stat.lastIndexOf(')') + 2) === 'D'
    } catch {
      return false // no /proc: every wait counts
    }
  }
  let seen = Atomics.load(cells, 0)
  let frozenMs = 0
  let at = performance.now()
  for (;;) {
    const tickMs = Atomics.load(cells, 4)
    if (Atomics.wait(cells, 1, 0, tickMs) !== 'timed-out') return
    const now = performance.now()
    const took = now - at
    at = now
    const beat = Atomics.load(cells, 0)
    // this thread did not run either: the machine slept or the process was stopped
    if (beat !== seen || took > 5 * tickMs || Atomics.load(cells, 3) === 1) frozenMs = 0
    else if (!waitsForDisk()) frozenMs += took
    seen = beat
    const limit = Atomics.load(cells, 2)
    if (limit > 0 && frozenMs >= limit) break
  }
  const kill = (): void => void process.kill(pid, 'SIGALRM')
  const end = (stack: readonly string[]): void => {
    const text = `the event loop has been frozen for ${Math.round(frozenMs / 1000)} s`
    try {
      fs.writeSync(2, `os-node: ${text}; ending the process${stack[0] ? ` in ${stack[0]}` : ''}\n`)
    } catch {
      // stderr is closed: the end itself must not fail
    }
    // the end must not wait for a disk either
    setTimeout(kill, 1000)
    if (note) fs.writeFile(note, JSON.stringify({ text, stack }), kill)
    else kill()
  }
  setTimeout(end, 2000, [])
  try {
    const session = new (inspect().Session)()
    const scripts = new Map<string, string>()
    session.on('Debugger.scriptParsed', ({ params }) => void scripts.set(params.scriptId, params.url))
    let steps = 0
    session.on('Debugger.paused', ({ params }) => {
      const frames = params.callFrames.map(({ functionName, location: { scriptId, lineNumber } }) => {
        const place = `${scripts.get(scriptId) ?? ''}:${lineNumber + 1}`
        return functionName ? `${functionName} (${place})` : place
      })
      const reported = frames.filter(frame => !frame.includes('node:'))
      // between two turns of the loop no code of this program runs: step until a frame of it appears
      if (reported.length > 0 || ++steps > 100) end(reported)
      else session.post('Debugger.stepInto')
    })
    session.connectToMainThread()
    session.post('Debugger.enable')
    session.post('Debugger.pause')
  } catch {
    end([]) // this Node was built without the inspector
  }
}

/** How the event loop of the last run froze. */
interface Frozen {
  readonly text: string
  /** the stack, innermost first: `function (file:line)` */
  readonly stack: readonly string[]
}

/** Reads and removes what the watch thread stored at `note`; undefined if it cannot be read. */
export function takeFrozen(note: string, logger: Logger): Frozen | undefined {
  try {
    const { text, stack } = JSON.parse(readRegular(note).toString()) as Partial<Frozen>
    unlinkSync(note)
    if (typeof text !== 'string' || !Array.isArray(stack)) throw new TypeError('it contains no report of a freeze')
    return { text, stack: stack.map(String) }
  } catch (error) {
    if (errno(error) !== 'ENOENT') logger.warn(`${note} cannot be read: ${String(error)}`)
  }
  return undefined
}

export class FreezeWatch {
  readonly #cells = new Int32Array(new SharedArrayBuffer(20))
  readonly #logger: Logger
  readonly #note: string | undefined
  #worker: Worker | undefined
  #beat: NodeJS.Timeout | undefined

  /** `note`: file that the thread writes for takeFrozen(). */
  constructor(logger: Logger, note?: string) {
    this.#logger = logger
    this.#note = note
  }

  /** Starts the watch, or changes the limit; 0: never ends the process. */
  limit(ms: number): void {
    const beatMs = Math.min(Math.max(ms / 10, BEAT_MS.least), BEAT_MS.most)
    Atomics.store(this.#cells, CELLS.limitMs, ms)
    Atomics.store(this.#cells, CELLS.beatMs, beatMs)
    if (ms > 0 && !this.#worker) this.#start()
    if (!this.#worker) return
    // frequent changes of the limit must not keep the counter from moving
    this.#tick()
    clearInterval(this.#beat)
    this.#beat = setInterval(() => this.#tick(), beatMs)
    this.#beat.unref()
  }

  #start(): void {
    const workerData: WatchData = { cells: this.#cells, pid: process.pid, note: this.#note }
    const program = `(${watch})(require('node:worker_threads'),require('node:fs'),()=>require('node:inspector'))`
    const memory = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 2, codeRangeSizeMb: 4, stackSizeMb: 1 }
    try {
      this.#worker = new Worker(program, { eval: true, workerData, resourceLimits: memory, execArgv: [], env: {} })
    } catch (error) {
      this.#failed(error)
      return
    }
    this.#worker.on('error', error => this.#failed(error))
    this.#worker.unref()
  }

  /** Ends the thread. Settles after it has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#beat)
    Atomics.store(this.#cells, CELLS.limitMs, 0)
    Atomics.store(this.#cells, CELLS.stop, 1)
    Atomics.notify(this.#cells, CELLS.stop)
    await this.#worker?.terminate()
    this.#worker = undefined
  }

  #tick(): void {
    Atomics.store(this.#cells, CELLS.debugged, url() === undefined ? 0 : 1)
    Atomics.add(this.#cells, CELLS.beat, 1)
  }

  #failed(error: unknown): void {
    this.#logger.warn(`the event loop is not watched: ${error instanceof Error ? error.message : String(error)}`)
    clearInterval(this.#beat)
    this.#worker = undefined
  }
}
