// One SQL worker thread, seen from the main thread: gets batches from the log, at most two in flight, and queries. It first
// gets the records missing in the sealed windows, gap by gap, then the newest ones. If it dies, its owner gets one report and
// every open query fails; a new worker reads the log again.
import { Worker } from 'node:worker_threads'
import { ERRORS, type ErrorCode, OsError } from '../lib/errors'
import type { LogSource, Reader, RecordKind } from '../log'
import type { WindowSettings } from './folder'
import { isForeign } from './foreign'
import type { FromWorker, IdQuestion, Question, ToWorker, WindowNote, WorkerSetup } from './messages'
import type { Missed } from './missed-facts'
import { type WorkerProgram, workerProgram } from './program'
import type { ServerSetup } from './server/setup'
import type { ViewCounts } from './view'

const BATCH_BYTES = 256 * 1024
const BATCHES = 2
/** the same for a database server, whose rows are temporarily texts */
const SERVER_MB = 16
/** minimum bytes of a packet in the view: packets that cannot fit are not sent at the start */
const SMALLEST_ROW = 100
/** maximum MB of V8's young generation */
export const YOUNG_MB = 4

interface SqlThreadOptions {
  log: LogSource
  maxPackets: number
  maxBytes: number
  windows?: WindowSettings
  program?: WorkerProgram
  /** a database server's worker instead of the view's: its file and its setup */
  server?: { readonly script: string; readonly setup: ServerSetup }
  /** names of windows checked to be of this log; more are added after their check */
  checked: Set<string>
  /** absent: records that the log drops are not counted */
  missed?: Missed
  /** every record up to `upTo` is in the view; `stored`: facts or clock records were added */
  onApplied: (upTo: number, stored: boolean) => void
  /** the server has records of this log that the log does not have */
  onForeign?: () => void
  onDead: (error: Error) => void
}

interface PendingCall {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: OsError) => void
}

/** A range of the log to be sent. */
interface Leg {
  readonly from: number
  readonly to: number
  readonly kinds: readonly RecordKind[]
  /** begins or ends a separate window */
  readonly begins?: true
  readonly seals?: number
}

function viewWorker({ maxPackets, maxBytes, windows, program = workerProgram() }: SqlThreadOptions): Worker {
  const setup: WorkerSetup = { wasm: program.wasm, maxPackets, maxBytes, ...(windows && { windows }) }
  return new Worker(program.script, {
    eval: true,
    workerData: setup,
    transferList: [program.wasm.buffer as ArrayBuffer],
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  })
}

export class SqlThread {
  counts: ViewCounts = { packets: 0, duplicates: 0, left: 0 }
  appliedSeq = 0
  /** memory of the worker, bytes */
  heap!: number
  /** a sealed window was lost during queries */
  hole!: boolean
  readonly #o: SqlThreadOptions
  readonly #worker: Worker
  readonly #legs: Leg[] = []
  #reader: Reader | undefined
  #foreign: string[] = []
  readonly #free: ArrayBuffer[] = []
  readonly #pending = new Map<number, PendingCall>()
  #nextId = 1
  #dead = false

  constructor(options: SqlThreadOptions) {
    this.#o = options
    const { server } = options
    for (let k = 0; k < BATCHES; k++) this.#free.push(new ArrayBuffer(BATCH_BYTES))
    this.#worker = server
      ? new Worker(server.script, { workerData: server.setup, resourceLimits: { maxYoungGenerationSizeMb: SERVER_MB } })
      : viewWorker(options)
    this.#worker.on('message', (message: FromWorker) => this.#heard(message))
    this.#worker.on('error', error => this.#die(error))
    this.#worker.on('exit', code => this.#die(new Error(`the SQL worker ended with code ${code}`)))
  }

  /** Sends newly committed records; cheap if there are none. */
  feed(): void {
    if (!this.#reader || this.#dead) return
    // what the log dropped is counted as missed, and may still be in RAM
    const { firstSeq } = this.#o.log
    const { to, kinds } = this.#legs[0]!
    if (this.#reader.position < firstSeq) this.#reader = this.#o.log.reader(firstSeq, { kinds, upTo: to })
    while (this.#free.length > 0) {
      const leg = this.#legs[0]!
      const bytes = this.#free.pop()!
      const length = this.#reader.fill(Buffer.from(bytes))
      const upTo = Math.min(this.#reader.position - 1, leg.seals ?? leg.to)
      if (length === 0) {
        this.#free.push(bytes)
        if (this.#legs.length > 1) {
          this.#next()
          continue
        }
        // only irrelevant records since: they count as stored when no batch is in flight
        if (this.#free.length === BATCHES) this.#applied(upTo)
        return
      }
      this.#post({ type: 'batch', bytes, length, upTo, logFirst: this.#o.log.firstSeq }, [bytes])
    }
  }

  get busy(): boolean {
    return this.#pending.size > 0 || this.#free.length < BATCHES
  }

  ask(question: Question | IdQuestion): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      this.#pending.set(id, { resolve, reject })
      this.#post({ type: 'question', id, question })
    })
  }

  async end(): Promise<void> {
    this.#fail()
    await this.#worker.terminate()
  }

  #post(message: ToWorker, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer)
  }

  #heard(message: FromWorker): void {
    if (this.#dead) return
    if (message.type === 'down') {
      this.#die(new OsError(message.code, message.message))
      return
    }
    this.counts = message.counts
    this.heap = message.heap
    this.hole = message.hole
    const { missed, server } = this.#o
    if (message.type === 'applied' && server) missed?.changed([{ from: 0, to: message.upTo }], this.counts)
    else if (message.type !== 'ready' && message.windows) missed?.changed(message.windows, this.counts)
    if (message.type === 'ready') {
      if (server) this.#follow(message.seq)
      else this.#plan(message.windows)
      this.feed()
    } else if (message.type === 'applied') {
      if (message.bytes) this.#free.push(message.bytes)
      this.#applied(message.upTo, true)
      this.feed()
    } else {
      const requested = this.#pending.get(message.id)
      this.#pending.delete(message.id)
      if (message.type === 'answer') {
        requested?.resolve(message.answer)
        return
      }
      const code = message.code in ERRORS ? (message.code as ErrorCode) : 'DB_UNAVAILABLE'
      requested?.reject(new OsError(code, message.message))
    }
  }

  /** Plans the ranges to send: the gaps between the sealed windows, each as a separate window, then everything newer. */
  #plan(found: readonly WindowNote[]): void {
    const { log, windows, maxPackets, maxBytes, checked, missed } = this.#o
    this.#foreign = found.filter(w => !checked.has(w.name) && isForeign(w, log)).map(({ name }) => name)
    let next = log.firstSeq
    for (const { from, to, name } of found) {
      if (this.#foreign.includes(name)) continue
      checked.add(name)
      if (from > next && !windows?.readOnly) {
        this.#legs.push({ from: next, to: from - 1, kinds: ['fact', 'clock'], begins: true })
        // the clock was set later, which moved the times of these too
        this.#legs.push({ from, to: log.committedSeq, kinds: ['clock'], seals: from - 1 })
      }
      next = Math.max(next, to + 1)
    }
    if (!windows || windows.readOnly) {
      const newest = Math.min(maxPackets, Math.ceil(maxBytes / SMALLEST_ROW))
      next = Math.max(next, log.startOfLast(newest))
    }
    this.appliedSeq = (this.#legs[0]?.from ?? next) - 1
    this.#legs.push({ from: next, to: Number.POSITIVE_INFINITY, kinds: ['fact', 'clock'], begins: true })
    const own = found.filter(({ name }) => !this.#foreign.includes(name))
    missed?.began(own, this.counts, () => this.#unread())
    this.#enter()
  }

  #next(): void {
    const { seals } = this.#legs.shift()!
    if (seals !== undefined) this.#post({ type: 'seal', upTo: seals })
    this.#enter()
  }

  #enter(): void {
    const { from, to, kinds, begins } = this.#legs[0]!
    if (begins) this.#post({ type: 'begin', from, foreign: this.#foreign.splice(0) })
    this.#reader = this.#o.log.reader(from, { kinds, upTo: to })
  }

  /** A server continues after its seq; if this process does not write, it only answers queries. */
  #follow(seq: number | undefined): void {
    const { log, onForeign } = this.#o
    if (seq !== undefined && seq > log.lastSeq) {
      onForeign?.()
      this.#die(
        new OsError('STORAGE', 'the server has newer records of this log: this log was restored to an older state'),
      )
      return
    }
    const from = Math.max((seq ?? log.lastSeq) + 1, log.firstSeq)
    this.appliedSeq = from - 1
    if (seq !== undefined) {
      this.#o.missed?.began([{ from: 0, to: seq }], this.counts, () => this.#unread())
      this.#legs.push({ from, to: Number.POSITIVE_INFINITY, kinds: ['fact', 'clock'] })
      this.#enter()
    }
    this.#applied(this.appliedSeq)
  }

  /** Ranges whose facts are in no batch yet. */
  #unread() {
    return this.#legs.flatMap(({ from, to, kinds }, k) =>
      kinds.includes('fact') ? [{ from: k === 0 ? this.#reader!.position : from, to }] : [],
    )
  }

  #applied(upTo: number, stored = false): void {
    if (upTo < this.appliedSeq) return
    this.appliedSeq = upTo
    this.#o.onApplied(upTo, stored)
  }

  #die(error: Error): void {
    if (this.#dead) return
    this.#fail()
    this.#o.onDead(error)
  }

  #fail(): void {
    this.#dead = true
    const requested = [...this.#pending.values()]
    this.#pending.clear()
    for (const { reject } of requested) reject(new OsError('DB_UNAVAILABLE', 'database unavailable'))
  }
}
