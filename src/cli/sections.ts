// The data of the display sections (decision 0011): from a running gateway, queried over its control socket at each update, or
// from this process and the files while none runs. A gateway that starts or stops in between is noticed at the next
// update.
import type { DisplayFormat, Plain, SectionFilter, SectionInfo, SectionReader } from '../display'
import { OsError } from '../lib/errors'
import { ask, findGateway } from './client'

/** longer than a section may take, shorter than a person waits */
const SILENCE_MS = 12_000

export class GatewaySections implements SectionReader {
  readonly #dataDir: string
  readonly #local: () => Promise<SectionReader>
  #via: 'gateway' | 'local' | undefined

  constructor(dataDir: string, local: () => Promise<SectionReader>) {
    this.#dataDir = dataDir
    this.#local = local
  }

  get via(): string | undefined {
    return this.#via
  }

  async available(filter: SectionFilter = {}): Promise<SectionInfo[]> {
    const { category, minPriority } = filter
    const options = {
      ...(category !== undefined && { category }),
      ...(minPriority !== undefined && { 'min-priority': minPriority }),
    }
    const answer = await this.#ask('tui sections', options)
    return answer ? (answer.sections as SectionInfo[]) : (await this.#local()).available(filter)
  }

  async read(names: readonly string[] | null, format: DisplayFormat = 'json'): Promise<Record<string, Plain>> {
    const answer = await this.#ask('tui render', { format, ...(names !== null && { section: names.join(',') }) })
    if (!answer) return (await this.#local()).read(names, format)
    const { timestamp: _t, format: _f, via: _v, ...sections } = answer
    return sections as Record<string, Plain>
  }

  /** Null: no gateway runs. Throws FORBIDDEN, NO_GATEWAY, TIMEOUT, and the gateway's own errors. */
  async #ask(command: string, options: Record<string, unknown>): Promise<Record<string, unknown> | null> {
    const { socket, owner } = await findGateway(this.#dataDir)
    if (socket) {
      const { result = {} } = await ask(socket, { command, options }, { silenceMs: SILENCE_MS })
      this.#via = 'gateway'
      return result
    }
    if (owner && owner.role !== 'command')
      throw new OsError('NO_GATEWAY', `process ${owner.pid} (os-node ${owner.role}) does not listen yet`)
    this.#via = 'local'
    return null
  }
}
