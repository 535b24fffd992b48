// Hanging calls, and deadlines controlled by the test: a call that should time out has started before its deadline, however
// busy the machine is.
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { systemClock } from '../../src/lib/clock'
import { until } from './gateway'

/** Stops the monotonic clock for the remaining test; `pass` advances it. Deadline timers fire, and check this clock. */
export function heldClock(t: TestContext): { pass(ms: number): void } {
  let now = systemClock.mono()
  t.mock.method(systemClock, 'mono', () => now)
  return {
    pass: ms => {
      now += ms
    },
  }
}

/** A FIFO without a writer: a reader waits in the kernel, as for a bus whose chip holds a line low. */
export class HangingFile {
  readonly path: string
  /** open for writing, so that readers wait in read() and can be counted */
  #holder: number | undefined

  constructor(path: string) {
    this.path = join(realpathSync(dirname(path)), basename(path))
    execFileSync('mkfifo', [this.path])
    this.#holder = openSync(this.path, 'r+')
  }

  /** number of reads of this process that wait for it */
  get readers(): number {
    const links = readdirSync('/proc/self/fd').map(fd => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`)
      } catch {
        return '' // closed meanwhile
      }
    })
    return links.filter(link => link === this.path).length - (this.#holder === undefined ? 0 : 1)
  }

  /** Waits until this many reads wait. */
  async begun(readers = 1): Promise<void> {
    await until(`${readers} read ${this.path}`, () => this.readers >= readers).catch(error => {
      throw new Error(`${error.message}; ${this.readers} do`)
    })
  }

  /** Ends the waiting read, once there is one: it reads an empty file. */
  async release(): Promise<void> {
    await this.begun()
    this.letGo()
  }

  /** Ends waiting and later reads; safe to call repeatedly. */
  letGo(): void {
    if (this.#holder !== undefined) closeSync(this.#holder)
    this.#holder = undefined
    try {
      closeSync(openSync(this.path, constants.O_WRONLY | constants.O_NONBLOCK))
    } catch {
      // no reader waits for a writer
    }
  }
}
