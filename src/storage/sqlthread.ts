// One life of the SQL worker thread, seen from the main thread: it is fed from the log in batches, at most two under way,
// and asked questions. When it dies, whoever holds it is told once and every open question fails; a new life starts from
// the log again.
import { Worker } from 'node:worker_threads'
import { ERRORS, type ErrorCode, OsError } from '../lib/errors'
import type { LogSource, Reader } from '../log'
import type { FromWorker, Question, ToWorker, WorkerSetup } from './messages'
import type { ViewCounts } from './view'

const BATCH_BYTES = 256 * 1024
const BATCHES = 2
/** bytes a packet takes in the view at least: what cannot fit is not fed at the start */
const SMALLEST_ROW = 100

export interface SqlThreadOptions {
  script: string
  log: LogSource
  maxPackets: number
  maxBytes: number
  /** every record up to `upTo` is in the view */
  onApplied: (upTo: number) => void
  onDead: (error: Error) => void
}

interface Asked {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: OsError) => void
}

export class SqlThread {
  counts: ViewCounts = { packets: 0, duplicates: 0, left: 0 }
  appliedSeq = 0
  readonly #o: SqlThreadOptions
  readonly #worker: Worker
  readonly #reader: Reader
  readonly #free: ArrayBuffer[] = []
  readonly #asked = new Map<number, Asked>()
  #nextId = 1
  #ready = false
  #dead = false

  constructor(options: SqlThreadOptions) {
    this.#o = options
    const newest = Math.min(options.maxPackets, Math.ceil(options.maxBytes / SMALLEST_ROW))
    this.#reader = options.log.reader(options.log.startOfLast(newest), { kinds: ['fact', 'clock'] })
    for (let k = 0; k < BATCHES; k++) this.#free.push(new ArrayBuffer(BATCH_BYTES))
    const setup: WorkerSetup = { role: 'sql', maxPackets: options.maxPackets, maxBytes: options.maxBytes }
    this.#worker = new Worker(options.script, { workerData: setup })
    this.#worker.on('message', (message: FromWorker) => this.#heard(message))
    this.#worker.on('error', error => this.#die(error))
    this.#worker.on('exit', code => this.#die(new Error(`the SQL worker ended with code ${code}`)))
  }

  /** Hands over what the log committed since; cheap when there is nothing. */
  feed(): void {
    if (!this.#ready || this.#dead) return
    while (this.#free.length > 0) {
      const bytes = this.#free.pop()!
      const length = this.#reader.fill(Buffer.from(bytes))
      const upTo = Math.max(this.#reader.position - 1, length > 0 ? 0 : this.appliedSeq)
      if (length === 0) {
        this.#free.push(bytes)
        // only records of no interest since: they count as stored when nothing is under way
        if (this.#free.length === BATCHES) this.#applied(upTo)
        return
      }
      this.#post({ type: 'batch', bytes, length, upTo }, [bytes])
    }
  }

  ask(question: Question): Promise<unknown> {
    if (this.#dead) return Promise.reject(new OsError('DB_UNAVAILABLE', 'database unavailable'))
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      this.#asked.set(id, { resolve, reject })
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
    if (message.type === 'ready') {
      this.#ready = true
      this.feed()
    } else if (message.type === 'applied') {
      this.counts = message.counts
      this.#free.push(message.bytes)
      this.#applied(message.upTo)
      this.feed()
    } else {
      const asked = this.#asked.get(message.id)
      this.#asked.delete(message.id)
      if (message.type === 'answer') asked?.resolve(message.answer)
      else {
        const code = message.code in ERRORS ? (message.code as ErrorCode) : 'DB_UNAVAILABLE'
        asked?.reject(new OsError(code, message.message))
      }
    }
  }

  #applied(upTo: number): void {
    if (upTo < this.appliedSeq) return
    this.appliedSeq = upTo
    this.#o.onApplied(upTo)
  }

  #die(error: Error): void {
    if (this.#dead) return
    this.#fail()
    this.#o.onDead(error)
  }

  #fail(): void {
    this.#dead = true
    const asked = [...this.#asked.values()]
    this.#asked.clear()
    for (const { reject } of asked) reject(new OsError('DB_UNAVAILABLE', 'database unavailable'))
  }
}
