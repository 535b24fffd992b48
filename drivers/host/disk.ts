// Space on the file systems that matter: the root and the data directory (once, where they are the same file system).
// A network file system can hang: it is read as slow files are. What fails: a path that is not there is left
// out at the scan; one that goes later keeps its places, ERROR.

import { asOsError, OsError } from '../../src/lib/errors'
import { safeName } from '../../src/links/names'
import { percent } from './codec'
import type { HostEnvironment } from './environment'
import type { HostSensor, Probe } from './group'
import type { Space } from './slow'

interface DiskPath {
  path: string
  /** for the sensors' names: disk_<label>_free, disk_<label>_used */
  label: string
}

interface DiskSensor extends HostSensor {
  readonly path: string
  readonly value: (space: Space) => number | null
}

/** As `df` has it: of what a user may use, so that 100 % is "full" although blocks are reserved for root. */
const usedPercent = ({ totalBytes, freeBytes, availableBytes }: Space): number | null => {
  const used = totalBytes - freeBytes
  return used + availableBytes > 0 ? percent(used, used + availableBytes) : null
}

/** The root, the data directory and whatever paths are named beside. */
export const diskPaths = (dataDir?: string, paths: readonly string[] = []): DiskPath[] => [
  { path: '/', label: 'root' },
  ...(dataDir === undefined ? [] : [{ path: dataDir, label: 'data' }]),
  ...paths.filter(path => path !== '/').map(path => ({ path, label: safeName(path) })),
]

const sensorsAt = ({ path, label }: DiskPath): DiskSensor[] => [
  { id: `disk_${label}_free`, unit: 'By', path, value: s => s.availableBytes },
  { id: `disk_${label}_used`, unit: '%', path, value: usedPercent },
]

export class DiskProbe implements Probe<DiskSensor> {
  constructor(
    readonly env: HostEnvironment,
    readonly paths: readonly DiskPath[],
  ) {}

  /** not those of the data directory: as a rule it is on the file system of the root and has none */
  get known(): readonly HostSensor[] {
    return this.paths.filter(({ label }) => label !== 'data').flatMap(sensorsAt)
  }

  async scan(): Promise<DiskSensor[]> {
    const seen = new Set<number>()
    const sensors: DiskSensor[] = []
    for (const place of this.paths) {
      const space = await this.#space(place.path)
      if (!space || seen.has(space.device)) continue
      seen.add(space.device)
      sensors.push(...sensorsAt(place))
    }
    if (sensors.length === 0)
      throw new OsError('NOT_FOUND', `no file system at ${this.paths.map(p => p.path).join(', ')}`)
    return sensors
  }

  async sample(sensors: readonly DiskSensor[]): Promise<(number | null)[]> {
    const spaces = new Map<string, Space | null>()
    for (const { path } of sensors) if (!spaces.has(path)) spaces.set(path, await this.#space(path))
    return sensors.map(({ path, value }) => {
      const space = spaces.get(path)
      return space ? value(space) : null
    })
  }

  async #space(path: string): Promise<Space | null> {
    try {
      return await this.env.space(path)
    } catch (error) {
      this.env.logger.debug(`${path}: ${asOsError(error).message}`)
      return null
    }
  }
}
