// The interface by which a client reads sections: from the registry of this process, or from a running gateway over its
// control socket (decision 0011). Both give the same answers.
import type { DisplayFormat } from './formats'
import type { Plain } from './plain'
import type { ProviderMetadata } from './provider'
import { CORE_ALIAS, CORE_PLUGIN, type DisplayRegistry, failure, type SectionFilter } from './registry'

/** A section in a client's list: `name` is the bare id of a built-in one, else `plugin:section`. */
export type SectionInfo = ProviderMetadata & { readonly name: string }

export interface SectionReader {
  /** where the last answer came from; absent: this process */
  readonly via?: string
  /** Sections in order. */
  available(filter?: SectionFilter): Promise<SectionInfo[]>
  /**
   * Sections in a format, by the requested names; null: all, by their list names. One that fails or does not exist is
   * `{error, code}`.
   */
  read(names: readonly string[] | null, format?: DisplayFormat): Promise<Record<string, Plain>>
}

/** The name of a section in a client's list. */
const listName = ({ plugin_name, section_id, section_path }: ProviderMetadata): string =>
  plugin_name === CORE_PLUGIN ? section_id : section_path

/** Every name of a section, its list name first. */
export const namesOf = (info: ProviderMetadata): string[] =>
  info.plugin_name === CORE_PLUGIN
    ? [listName(info), info.section_path, `${CORE_ALIAS}:${info.section_id}`]
    : [info.section_path]

/** Whether a name means this section. */
export const isCalled = (info: SectionInfo, called: string): boolean => namesOf(info).includes(called)

/** `a, b` → ['a', 'b']; empty → null, which means all. */
export function sectionNames(list: unknown): string[] | null {
  const names = String(list ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(Boolean)
  return names.length > 0 ? names : null
}

export class RegistryReader implements SectionReader {
  readonly #registry: DisplayRegistry
  readonly #node: unknown

  constructor(registry: DisplayRegistry, node: unknown = null) {
    this.#registry = registry
    this.#node = node
  }

  async available(filter: SectionFilter = {}): Promise<SectionInfo[]> {
    return this.#registry.metadata(filter).providers.map(info => ({ name: listName(info), ...info }))
  }

  async read(names: readonly string[] | null, format: DisplayFormat = 'json'): Promise<Record<string, Plain>> {
    const requested = names ?? (await this.available()).map(({ name }) => name)
    const parts = requested.map(async (name): Promise<[string, Plain]> => {
      try {
        return [name, (await this.#registry.render(name, format, { node: this.#node })).data]
      } catch (error) {
        return [name, failure(error)]
      }
    })
    return Object.fromEntries(await Promise.all(parts))
  }
}
