// Chooses the core that makes the frames of a gateway's uplinks and the one that checks packets of its receivers: rscore where it is clearly
// faster on this processor. Both are measured once (measure.ts); `<data>/cores.json` keeps the result for this build, Node and processor.
//
// Errors: without WebAssembly pycore continues, with one warning that status also shows. If the file cannot be read, or is of another
// machine, the cores are measured again; if it cannot be written, at every start.
import { cpus } from 'node:os'
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { FrameBatch } from '../pipeline/batch'
import type { Core } from '../pipeline/core'
import type { PacketSlab } from '../pipeline/slab'
import { createPacketSums, type PacketSums } from './checks'
import { type Measured, measureCores, type Speeds } from './measure'
import { nativeModule, whyNot } from './native'
import { NativeBatch } from './stage'

/** What status shows. */
export interface CoreReport {
  readonly uplinks: Core['name']
  readonly receivers: Core['name']
  /** ns per packet of each core; absent: not measured */
  readonly measured?: Measured
  /** why the native core is not used although it was chosen or not measured */
  readonly problem?: string
}

/** replaced by tests */
interface ChoiceParts {
  measure?: (leastRounds?: number) => Measured | null
  files?: Files
  clock?: Pick<Clock, 'mono'>
}

const PURE: CoreReport = { uplinks: 'pycore', receivers: 'pycore' }
/** rscore is used if it needs at most this share of pycore's time */
const CLEAR = 0.9
/** packets of the smallest batch that rscore makes: a smaller one costs more than it saves */
const LEAST = 4
const FILE = 'cores.json'
/** minimum interval between measurements */
const AGAIN_MS = 60_000
const MOST_TRIES = 10
/** rounds needed once links have batches: V8 has compiled both cores by then */
const WARM_ROUNDS = 5

const faster = ({ pycore, rscore }: Speeds): Core['name'] => (rscore <= CLEAR * pycore ? 'rscore' : 'pycore')

const chosen = (measured: Measured): CoreReport => ({
  uplinks: faster(measured.uplinks),
  receivers: faster(measured.receivers),
  measured,
})

/** The measurement stored in the data directory for `key` (null: for any key); null: none. */
function remembered(dataDir: string, key: string | null, files: Files): Measured | null {
  try {
    const file = JSON.parse(files.read(join(dataDir, FILE)).toString('utf8')) as { key: string; measured: Measured }
    const { uplinks, receivers } = file.measured
    const all = [uplinks.pycore, uplinks.rscore, receivers.pycore, receivers.rscore]
    return (key === null || file.key === key) && all.every(Number.isFinite) ? file.measured : null
  } catch {
    return null
  }
}

/** The choice of the last gateway of the data directory; null: none. */
export function lastChoice(dataDir: string, files: Files = realFiles): CoreReport | null {
  const measured = remembered(dataDir, null, files)
  return measured && chosen(measured)
}

export class GatewayCores {
  /** smallest batch for rscore, in packets */
  readonly least: number
  readonly #logger: Logger
  #report: CoreReport
  #sums: PacketSums | null = null
  /** measures again; null: there is a result, or there will be none */
  #attempt: (() => void) | null = null

  /** pycore, until choose(). */
  constructor(logger: Logger, report = PURE, least = LEAST) {
    this.#logger = logger
    this.#report = report
    this.least = least
  }

  get report(): CoreReport {
    return this.#report
  }

  /**
   * Uses the stored result of this `build`, or measures. If measuring gives no result, it is repeated when links have batches, at most once a minute.
   */
  choose(dataDir: string, build: string, parts: ChoiceParts = {}): void {
    const { measure = measureCores, files = realFiles, clock = systemClock } = parts
    const key = `${build} ${process.version} ${process.arch} ${cpus()[0]?.model ?? ''}`
    const known = remembered(dataDir, key, files)
    if (known) {
      this.#report = chosen(known)
      if (Object.values(this.#report).includes('rscore') && whyNot() !== null) this.#pure()
      return
    }
    let [tries, nextAt] = [0, Number.NEGATIVE_INFINITY]
    const attempt = (): void => {
      if (clock.mono() < nextAt) return
      const measured = measure(tries++ === 0 ? undefined : WARM_ROUNDS)
      nextAt = clock.mono() + AGAIN_MS
      this.#attempt = measured || whyNot() !== null || tries === MOST_TRIES ? null : attempt
      if (measured) this.#keep(measured, key, join(dataDir, FILE), files)
      else if (whyNot() !== null) this.#pure()
    }
    attempt()
  }

  #keep(measured: Measured, key: string, path: string, files: Files): void {
    this.#report = chosen(measured)
    try {
      atomicWrite(path, JSON.stringify({ key, measured }), files)
    } catch (error) {
      this.#logger.warn(
        `the choice of the core is not saved, and measured again at the next start: ${asOsError(error).message}`,
      )
    }
  }

  /** Whether an uplink with this number of waiting records makes their packets on rscore. */
  stages(waiting: () => number): boolean {
    if ((this.#attempt === null && this.#report.uplinks !== 'rscore') || waiting() < this.least) return false
    this.#attempt?.()
    return this.#report.uplinks === 'rscore'
  }

  /** For the frames of one uplink; null: pycore makes each at once. */
  batch(slab: PacketSlab): FrameBatch | null {
    const module = nativeModule()
    return module ? new NativeBatch(module, slab) : this.#pure()
  }

  /** Checks the packets of a delivery frame together; null: each one is checked when it is read. */
  readonly sums: PacketSums = (raw, at, n) => {
    if (n < this.least) return null
    this.#attempt?.()
    if (this.#report.receivers !== 'rscore') return null
    this.#sums ??= createPacketSums()
    return this.#sums ? this.#sums(raw, at, n) : this.#pure()
  }

  #pure(): null {
    const problem = `rscore is not available: ${whyNot()}`
    this.#report = { ...PURE, problem }
    this.#logger.warn(`${problem}; pycore makes and checks the packets`)
    return null
  }
}
