// Outputs of the running sources: GPIO outputs, relays. Every change is logged with its caller, since it acts on the outside
// world.
// Errors: an unknown output is NOT_FOUND with the existing names. A name that two sources have is BAD_REQUEST. A source that
// is down is LINK_DOWN with its reason.
import { nearest } from '../../config'
import { OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { Outputs, Source } from '../../links/contracts'
import type { OutputItem, OutputsControl } from '../../links/hardware'
import type { Link } from '../../links/link'
import type { Supervisor } from '../../links/supervisor'

interface Owner {
  readonly source: string
  readonly link: Link
  readonly outputs: Outputs
}

export class SourceOutputs implements OutputsControl {
  readonly #names: () => readonly string[]
  readonly #supervisor: Supervisor
  readonly #logger: Logger

  /** `names`: the running sources */
  constructor(names: () => readonly string[], supervisor: Supervisor, logger: Logger) {
    this.#names = names
    this.#supervisor = supervisor
    this.#logger = logger
  }

  list(): readonly OutputItem[] {
    return this.#owners().flatMap(owner => owner.outputs.list().map(({ name, value }) => itemOf(owner, name, value)))
  }

  async set(name: string, value: 0 | 1): Promise<OutputItem> {
    const { owner, output } = this.#find(name)
    const { source, link, outputs } = owner
    if (!link.usable) {
      const { state } = link
      throw new OsError('LINK_DOWN', `${source} is ${state.state}${'reason' in state ? `: ${state.reason}` : ''}`)
    }
    await outputs.set(output, value)
    this.#logger.info(`output ${source}.${output} set to ${value}`)
    return { source, name: output, value }
  }

  #owners(): Owner[] {
    return this.#names().flatMap(source => {
      const link = this.#supervisor.get(source)
      const { outputs } = (link?.thing ?? {}) as Partial<Source>
      return link && outputs ? [{ source, link, outputs }] : []
    })
  }

  #find(name: string): { owner: Owner; output: string } {
    const all = this.#owners().flatMap(owner => owner.outputs.list().map(output => ({ owner, output: output.name })))
    const found = all.filter(({ owner, output }) => output === name || `${owner.source}.${output}` === name)
    if (found.length === 1) return found[0]!
    const names = all.map(({ owner, output }) => `${owner.source}.${output}`)
    if (found.length > 1)
      throw new OsError('BAD_REQUEST', `several sources have an output ${name}`, {
        hint: `say which: ${names.filter(one => one.endsWith(`.${name}`)).join(', ')}`,
      })
    const plain = all.map(({ output }) => output)
    const meant = nearest(name, plain)
    throw new OsError('NOT_FOUND', `no output is named ${name}${meant ? `; did you mean ${meant}?` : ''}`, {
      hint: names.length > 0 ? `outputs: ${plain.join(', ')}` : 'no source with outputs is configured',
    })
  }
}

function itemOf({ source, link }: Owner, name: string, value: 0 | 1 | null): OutputItem {
  const { state } = link
  return { source, name, value, ...(value === null && 'reason' in state && { reason: state.reason }) }
}
