// Cuts the power of an emulated board, at a random write to its card or after a while. The card has a volatile cache that loses a part of the
// unflushed data and tears blocks (test/lib/volatile-disk.ts). OS_NODE_SEED repeats a run's choices.
import { randomInt } from 'node:crypto'
import { sleep } from '../lib/gateway'
import { prng, QUARTER } from '../lib/random'
import { type Cut, SECTOR, type VolatileDisk } from '../lib/volatile-disk'
import { type Answer, BOOT_MS, type Board, PLACES, type Power, until } from './board'
import { CHOOSER, type Phase, UpdatePhase } from './update-phase'

export const whole = process.env.OS_NODE_IMAGE === 'all'
/** `npm run test:long` cuts five times, `.ci/run` twice, OS_NODE_CUTS=N another number: a half of them during a first start. `npm run test:image`: see below. */
const CUTS = Number(process.env.OS_NODE_CUTS ?? (whole ? 40 : QUARTER ? 2 : 5))
/** cuts during a first start; for `npm run test:image` they are further ones */
export const FIRST = whole ? Math.ceil(CUTS / 10) : Math.floor(CUTS / 2)
/** cuts of a board under load, and during its starts */
export const LOADED = whole ? CUTS : CUTS - FIRST
/** writes of a first start, of a later one, of ten seconds of load, of an update until it is confirmed, and that its two phases have in any case */
export const WRITES = { first: 600, start: 60, load: 150, update: 1500, writing: 200, trial: 20 }
/** with fewer writes, the power is cut at a random moment within this time */
const LATEST_MS = 60_000
const SEED = Number(process.env.OS_NODE_SEED ?? randomInt(2 ** 31))

export class Cutter {
  readonly lost: Cut = { kept: 0, dropped: 0, torn: 0 }
  /** seconds of each start until the page answered */
  readonly starts: number[] = []
  /** cuts by what an update did at that moment */
  readonly phases: Record<Phase, number> = { 'no update': 0, writing: 0, trial: 0 }
  readonly board: Board
  readonly seed: number
  readonly random: () => number
  readonly #update = new UpdatePhase()
  #onWrite: ((at: number) => void) | undefined
  #power: Power | undefined
  #disk: VolatileDisk | undefined

  /** `nth`: of the boards of this run, which have different seeds */
  constructor(board: Board, nth = 0) {
    this.board = board
    this.seed = SEED + nth
    this.random = prng(this.seed)
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
    const disk = await this.board.loseUnflushed(this.random)
    this.#disk = disk
    disk.onWrite = (at, length) => {
      this.#update.wrote(at, length, () => disk.read(CHOOSER, SECTOR))
      this.#onWrite?.(at)
    }
  }

  on(): void {
    this.#update.powerOn()
    this.#power = this.board.power()
  }

  async cut(): Promise<void> {
    const now = await this.#power?.cut()
    this.#power = undefined
    for (const key of ['kept', 'dropped', 'torn'] as const) this.lost[key] += now?.[key] ?? 0
  }

  /** Cuts the power at a random one of the next `writes` writes, whatever the speed of this machine; `before` is called first. Resolves to the console. */
  cutAmong(writes: number, before?: () => void): Promise<string> {
    return this.#cutAt(Math.ceil(writes * this.random()), before)
  }

  /** Cuts the power at a random one of the first `writes` writes in that phase of an update. Throws if it does not come, or has fewer. */
  cutIn(phase: Phase, writes: number, before?: () => void): Promise<string> {
    return this.#cutAt(Math.ceil(writes * this.random()), before, phase)
  }

  #cutAt(nth: number, before = (): void => {}, phase?: Phase): Promise<string> {
    const power = this.#power!
    let left = nth
    return new Promise((resolve, reject) => {
      const end = (then: () => void): void => {
        clearTimeout(timer)
        this.#onWrite = undefined
        before()
        then()
      }
      const now = (): void =>
        end(() => {
          this.phases[this.#update.phase]++
          this.cut().then(() => resolve(power.said()), reject)
        })
      const late = (): void =>
        end(() => reject(new Error(`no cut in '${phase}', seed ${this.seed}\n${power.said().slice(-3000)}`)))
      const timer = setTimeout(phase ? late : now, phase ? 2 * BOOT_MS : LATEST_MS * (0.2 + 0.8 * this.random()))
      this.#onWrite = () => {
        if (phase && this.#update.phase !== phase) return void (left < nth && late())
        if (--left <= 0) now()
      }
    })
  }

  /** Switches the board on and cuts the power at the `nth` write to the start partition; false if the page answered before that. */
  async cutAtStartWrite(nth: number): Promise<boolean> {
    let left = nth
    let cutting: Promise<void> | undefined
    this.on()
    this.#onWrite = at => {
      if (at >= PLACES.start && at < PLACES.bootA && --left === 0) cutting = this.cut()
    }
    await until('the cut', () => cutting !== undefined || this.board.health())
    this.#onWrite = undefined
    await (cutting ?? this.cut())
    return cutting !== undefined
  }

  /** Switches the board on and waits until its page answers. */
  async start(): Promise<void> {
    const at = performance.now()
    this.on()
    await until(`the page of the board (seed ${this.seed})`, () => this.board.health()).catch(error => {
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
        throw new Error(`no token opens the page (seed ${this.seed})\n${this.said().slice(-3000)}`)
    }
  }
}
