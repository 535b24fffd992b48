// Makes a provider from a section that is only data, for plugins that need no formats of their own.
import { DisplayProvider, type SectionData } from './provider'

export interface PlainSection {
  readonly plugin_name: string
  readonly section_id: string
  readonly display_name: string
  readonly category?: string
  readonly priority?: number
  readonly refresh_interval_s?: number
  data(): SectionData | Promise<SectionData>
}

class SectionProvider extends DisplayProvider {
  readonly #section: PlainSection

  constructor(section: PlainSection) {
    super(section.plugin_name, section.section_id, section.display_name)
    this.#section = section
    this.category = section.category ?? this.category
    this.priority = section.priority ?? this.priority
    this.refresh_interval_s = section.refresh_interval_s ?? this.refresh_interval_s
    this.preferred_format = 'text'
  }

  extractData(): SectionData | Promise<SectionData> {
    return this.#section.data()
  }
}

const isSection = (value: unknown): value is PlainSection =>
  typeof value === 'object' && value !== null && typeof (value as Partial<PlainSection>).data === 'function'

/** A section as a provider; anything else unchanged. */
export const providerOf = (value: unknown): unknown =>
  isSection(value) && !(value instanceof DisplayProvider) ? new SectionProvider(value) : value
