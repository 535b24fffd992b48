// Space on the important file systems: the root and the data directory (once if both are on the same one). A network
// file system can hang, so it is read like a slow file. Errors: a path that does not exist at the scan is skipped; one
// that disappears later keeps its channels, with status ERROR.

import { asOsError, OsError } from '../../src/lib/errors'
import { safeName } from '../../src/links/names'
import type { Space } from './blocking-files'
import { percent } from './codec'
import type { HostEnvironment } from './environment'
import type { HostProbe, HostSensor } from './group'

interface DiskPath {
  path: string
  /** for the sensors' names: disk_<label>_free, disk_<label>_used */
  label: string
}

interface DiskSensor extends HostSensor {
  readonly path: string
  readonly value: (space: Space) => number | null
}

/** As in `df`: the share of the space that users may use, so that 100 % means full although blocks are reserved for root. */
const usedPercent = ({ totalBytes, freeBytes, availableBytes }: Space): number | null => {
  const used = totalBytes - freeBytes
  return used + availableBytes > 0 ? percent(used, used + availableBytes) : null
}

/** The root, the data directory and further configured paths. */
export const diskPaths = (dataDir?: string, paths: readonly string[] = []): DiskPath[] => [
  { path: '/', label: 'root' },
  ...(dataDir === undefined ? [] : [{ path: dataDir, label: 'data' }]),
  ...paths.filter(path => path !== '/').map(path => ({ path, label: safeName(path) })),
]

const sensorsAt = ({ path, label }: DiskPath): DiskSensor[] => [
  { id: `disk_${label}_free`, unit: 'By', path, value: s => s.availableBytes },
  { id: `disk_${label}_used`, unit: '%', path, value: usedPercent },
]

export class DiskProbe implements HostProbe<DiskSensor> {
  constructor(
    readonly env: HostEnvironment,
    readonly paths: readonly DiskPath[],
  ) {}

  /** without the data directory: it is usually on the root file system and has no channels */
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
