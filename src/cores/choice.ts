// Which core makes the frames of a gateway's uplinks, and checks what its receivers get: the native one where it is clearly faster on this
// processor. Measured once (measure.ts) and remembered in `<data>/cores.json` for this build, Node and processor.
//
// Errors: without WebAssembly the pure core continues, with one warning that status shows, too. A file that cannot be read, or is of another
// machine, is measured again; one that cannot be written is measured at every start.
import { cpus } from 'node:os'
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import { secondTimers, type Timers } from '../lib/timers'
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

/** of a choice; for tests */
interface ChoiceParts {
  measure?: () => Measured | null
  files?: Files
  timers?: Timers
}

const PURE: CoreReport = { uplinks: 'pycore', receivers: 'pycore' }
/** share of the pure core's time that the native one may take: less is no clear win */
const CLEAR = 0.9
/** a smaller batch costs more than it saves */
const LEAST = 4
const FILE = 'cores.json'
const FIRST_WAIT_MS = 10_000
const LAST_WAIT_MS = 3_600_000

const faster = ({ pycore, rscore }: Speeds): Core['name'] => (rscore <= CLEAR * pycore ? 'rscore' : 'pycore')

const chosen = (measured: Measured): CoreReport => ({
  uplinks: faster(measured.uplinks),
  receivers: faster(measured.receivers),
  measured,
})

/** What was measured in that data directory, under that key or any; null: nothing. */
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

/** The choice of the last gateway of that data directory; null: none. */
export function lastChoice(dataDir: string, files: Files = realFiles): CoreReport | null {
  const measured = remembered(dataDir, null, files)
  return measured && chosen(measured)
}

export class GatewayCores {
  /** smallest batch for the native core */
  readonly least: number
  readonly #logger: Logger
  #report: CoreReport
  #sums: PacketSums | null = null

  /** The pure core, until choose(). */
  constructor(logger: Logger, report = PURE, least = LEAST) {
    this.#logger = logger
    this.#report = report
    this.least = least
  }

  get report(): CoreReport {
    return this.#report
  }

  /**
   * Takes the remembered choice, or measures; `build`: another one is measured again. Without a result it is measured again later, when V8 has
   * optimized more.
   */
  choose(dataDir: string, build: string, parts: ChoiceParts = {}, waitMs = FIRST_WAIT_MS): void {
    const { measure = measureCores, files = realFiles, timers = secondTimers } = parts
    const key = `${build} ${process.version} ${process.arch} ${cpus()[0]?.model ?? ''}`
    const known = remembered(dataDir, key, files)
    const measured = known ?? measure()
    if (measured) this.#report = chosen(measured)
    else if (whyNot() !== null) this.#pure()
    else if (waitMs <= LAST_WAIT_MS) timers.after(waitMs, () => this.choose(dataDir, build, parts, 2 * waitMs))
    if (known || !measured) return
    try {
      atomicWrite(join(dataDir, FILE), JSON.stringify({ key, measured }), files)
    } catch (error) {
      this.#logger.warn(
        `the choice of the core is not saved, and measured again at the next start: ${asOsError(error).message}`,
      )
    }
  }

  /** For the frames of one uplink; null: the pure core makes each at once. */
  batch(slab: PacketSlab): FrameBatch | null {
    const module = nativeModule()
    return module ? new NativeBatch(module, slab) : this.#pure()
  }

  /** Checks the packets of a delivery frame together; null: each is checked when it is read. */
  readonly sums: PacketSums = (raw, at, n) => {
    if (this.#report.receivers !== 'rscore' || n < this.least) return null
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
