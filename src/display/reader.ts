// What a face that shows sections asks for, wherever they are: the registry of this process, or that of a running gateway
// behind its control socket (D17). Both answer the same.
import type { DisplayFormat } from './formats'
import type { Plain } from './plain'
import type { ProviderMetadata } from './provider'
import { CORE_ALIAS, CORE_PLUGIN, type DisplayRegistry, failure, type SectionFilter } from './registry'

/** A section as a face lists it: `name` is the bare id of a built-in one, `plugin:section` else. */
export type SectionInfo = ProviderMetadata & { readonly name: string }

export interface SectionReader {
  /** who answered last; absent: this process */
  readonly via?: string
  /** Sections in their order. */
  available(filter?: SectionFilter): Promise<SectionInfo[]>
  /**
   * Sections in a format, under the requested names; null: all, under the names they are listed with. One that fails or does
   * not exist is `{error, code}`.
   */
  read(names: readonly string[] | null, format?: DisplayFormat): Promise<Record<string, Plain>>
}

/** The name a face lists a section under. */
const listName = ({ plugin_name, section_id, section_path }: ProviderMetadata): string =>
  plugin_name === CORE_PLUGIN ? section_id : section_path

/** Every name a section has, the one it is listed under first. */
export const namesOf = (info: ProviderMetadata): string[] =>
  info.plugin_name === CORE_PLUGIN
    ? [listName(info), info.section_path, `${CORE_ALIAS}:${info.section_id}`]
    : [info.section_path]

/** Whether a name means this section, by any of the names it has. */
export const isCalled = (info: SectionInfo, called: string): boolean => namesOf(info).includes(called)

/** `a, b` → ['a', 'b']; nothing → null, which means all. */
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
