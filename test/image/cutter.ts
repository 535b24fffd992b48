// Cuts the power of an emulated board, at a random write to its card or after a while. The card has a volatile cache that loses a part of the
// unflushed data and tears blocks (test/lib/volatile-disk.ts). OS_NODE_SEED repeats a run's choices.
import { randomInt } from 'node:crypto'
import { sleep } from '../lib/gateway'
import { prng, QUARTER } from '../lib/random'
import type { Cut, VolatileDisk } from '../lib/volatile-disk'
import { type Answer, BOOT_MS, type Board, PLACES, type Power, until } from './board'

export const whole = process.env.OS_NODE_IMAGE === 'all'
/** `npm run test:image` cuts 40 times, `npm run test:long` five times, `.ci/run` twice, OS_NODE_CUTS=N another number; so many of them during a first start */
export const CUTS = Number(process.env.OS_NODE_CUTS ?? (whole ? 40 : QUARTER ? 2 : 5))
export const FIRST = whole ? Math.ceil(CUTS / 5) : Math.floor(CUTS / 2)
/** writes of a first start, of a later one, of ten seconds of load, and of an update until it is confirmed */
export const WRITES = { first: 600, start: 60, load: 150, update: 1500 }
/** with fewer writes, the power is cut after this time */
const LATEST_MS = 60_000
export const seed = Number(process.env.OS_NODE_SEED ?? randomInt(2 ** 31))
export const random = prng(seed)

export class Cutter {
  readonly lost: Cut = { kept: 0, dropped: 0, torn: 0 }
  /** seconds of each start until the page answered */
  readonly starts: number[] = []
  readonly board: Board
  #power: Power | undefined
  #disk: VolatileDisk | undefined

  constructor(board: Board) {
    this.board = board
  }

  get flushes(): number {
    return this.#disk!.flushes
  }

  /** The console since the board was switched on. */
  said(): string {
    return this.#power!.said()
  }

  /** From now on the card loses unflushed data. */
  async loseUnflushed(): Promise<void> {
    this.#disk = await this.board.loseUnflushed(random)
  }

  on(): void {
    this.#power = this.board.power()
  }

  async cut(): Promise<void> {
    const now = await this.#power?.cut()
    this.#power = undefined
    for (const key of ['kept', 'dropped', 'torn'] as const) this.lost[key] += now?.[key] ?? 0
  }

  /** Cuts the power at a random one of the next `writes` writes, whatever the speed of this machine; `before` is called first. Resolves to the console. */
  cutAmong(writes: number, before = (): void => {}): Promise<string> {
    const disk = this.#disk!
    const power = this.#power!
    let left = Math.ceil(writes * random())
    return new Promise((resolve, reject) => {
      const now = (): void => {
        clearTimeout(timer)
        disk.onWrite = undefined
        before()
        this.cut().then(() => resolve(power.said()), reject)
      }
      const timer = setTimeout(now, LATEST_MS)
      disk.onWrite = () => {
        if (--left <= 0) now()
      }
    })
  }

  /** Switches the board on and cuts the power at the `nth` write to the start partition; false if the page answered before that. */
  async cutAtStartWrite(nth: number): Promise<boolean> {
    const disk = this.#disk!
    let left = nth
    let cutting: Promise<void> | undefined
    this.on()
    disk.onWrite = at => {
      if (at >= PLACES.start && at < PLACES.bootA && --left === 0) cutting = this.cut()
    }
    await until('the cut', () => cutting !== undefined || this.board.health())
    disk.onWrite = undefined
    await (cutting ?? this.cut())
    return cutting !== undefined
  }

  /** Switches the board on and waits until its page answers. */
  async start(): Promise<void> {
    const at = performance.now()
    this.on()
    await until(`the page of the board (seed ${seed})`, () => this.board.health()).catch(error => {
      throw new Error(`${error.message}\n${this.said().slice(-3000)}`)
    })
    this.starts.push((performance.now() - at) / 1000)
  }

  /** An answer of the page, on a machine that may be too busy for the first one. */
  answered(path: string, options: Parameters<Board['ask']>[1]): Promise<Answer> {
    return until(path, () => this.board.ask(path, options))
  }

  /** The newest token that the console showed in `earlier` and now, once it opens the page. */
  async tokenThatWorks(earlier: string): Promise<string> {
    for (const end = performance.now() + BOOT_MS; ; await sleep(3000)) {
      const token = [...(earlier + this.said()).matchAll(/Your token:\s+([\w-]{43})\n/g)].at(-1)?.[1]
      if (token && (await this.answered('/api/dashboard', { token })).status === 200) return token
      if (performance.now() > end)
        throw new Error(`no token opens the page (seed ${seed})\n${this.said().slice(-3000)}`)
    }
  }
}
