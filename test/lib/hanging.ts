// Calls that hang, and deadlines that pass when the test says so: a call that is to time out has started before its time is
// over, however busy the machine is.
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { systemClock } from '../../src/lib/clock'
import { until } from './gateway'

/** Stops the monotonic clock for the rest of the test; `pass` moves it. Timers of deadlines use this clock. */
export function heldClock(t: TestContext): { pass(ms: number): void } {
  let now = systemClock.mono()
  t.mock.method(systemClock, 'mono', () => now)
  return {
    pass: ms => {
      now += ms
    },
  }
}

/** A FIFO that is never written to: its reader waits in the kernel, as on a bus whose chip holds a line low. */
export class HangingFile {
  readonly path: string
  /** open for writing, so that readers wait in read() and can be counted */
  #holder: number | undefined

  constructor(path: string) {
    this.path = join(realpathSync(dirname(path)), basename(path))
    execFileSync('mkfifo', [this.path])
    this.#holder = openSync(this.path, 'r+')
  }

  /** how many readers of this process wait now */
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

  /** Waits until so many are reading it. */
  async begun(readers = 1): Promise<void> {
    await until(`${readers} read ${this.path}`, () => this.readers >= readers).catch(error => {
      throw new Error(`${error.message}; ${this.readers} do`)
    })
  }

  /** Releases its readers, once there is one: the file is empty for it. */
  async release(): Promise<void> {
    await this.begun()
    this.letGo()
  }

  /** Releases current and starting readers; safe to call repeatedly. */
  letGo(): void {
    if (this.#holder !== undefined) closeSync(this.#holder)
    this.#holder = undefined
    try {
      closeSync(openSync(this.path, constants.O_WRONLY | constants.O_NONBLOCK))
    } catch {
      // no open waits for a writer
    }
  }
}
