// The SQL worker in the simulated world: node:worker_threads' Worker, whose text runs with its own globals on the clock and the disk of its
// machine. Messages arrive in order, each after the duration of the work before it. It dies with its process, by a fault, or by an exception,
// of which the main thread gets one event.
import { EventEmitter } from 'node:events'
import { Crash } from './disk'
import type { Dice, Engine, Owner } from './engine'

/** What a thread is made with: `run` runs its text with these modules in place of the program's. */
export interface ThreadParts {
  readonly engine: Engine
  readonly dice: Dice
  readonly process: Owner
  run(modules: Record<string, unknown>, owner: Owner): void
}

export class SimThread extends EventEmitter implements Owner {
  #dead = false
  readonly #parts: ThreadParts
  readonly #port = new EventEmitter()
  #busyUntil = 0

  constructor(parts: ThreadParts, data: object) {
    super()
    this.#parts = parts
    Object.assign(this.#port, {
      postMessage: (message: unknown, transfer: ArrayBuffer[] = []) => {
        const copy = structuredClone(message, { transfer })
        if (!this.#dead) this.#later(parts.process, () => this.emit('message', copy))
      },
    })
    this.#later(this, () =>
      parts.run(
        {
          worker_threads: { isMainThread: false, parentPort: this.#port, workerData: data },
          v8: {
            getHeapStatistics: () => ({ used_heap_size: 2e7, external_memory: 1e6 }),
            setFlagsFromString: () => undefined,
          },
          vm: { runInNewContext: () => () => undefined },
        },
        this,
      ),
    )
  }

  get dead(): boolean {
    return this.#dead || this.#parts.process.dead
  }
  get frozenUntil(): number {
    return this.#parts.process.frozenUntil
  }

  postMessage(message: unknown, transfer: ArrayBuffer[] = []): void {
    const copy = structuredClone(message, { transfer })
    this.#later(this, () => this.#port.emit('message', copy))
  }

  async terminate(): Promise<void> {
    this.#dead = true
  }

  /** It runs out of memory, or throws an error. */
  die(error: Error): void {
    if (this.dead) return
    this.#dead = true
    this.#parts.engine.after(0, () => this.emit('error', error), this.#parts.process)
  }

  /** In turn, after its current work. */
  #later(owner: Owner, run: () => void): void {
    const { engine, dice } = this.#parts
    this.#busyUntil = Math.max(this.#busyUntil, engine.now) + dice.scale(0.1, 20)
    engine.after(
      this.#busyUntil - engine.now,
      () => {
        try {
          run()
        } catch (error) {
          if (owner !== this || error instanceof Crash) throw error
          this.die(error as Error)
        }
      },
      owner,
    )
  }
}
