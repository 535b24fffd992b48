// The built-in sections. They are providers like any other and independent of the data's origin: main passes in the
// data of a running gateway, the CLI that of the files, and a library node is queried directly.
import { OsError } from '../lib/errors'
import { coreText } from './core-text'
import { type DisplaySource, isNode, nodeSource } from './node-source'
import { plain } from './plain'
import { DisplayProvider, type SectionData } from './provider'
import { CORE_PLUGIN } from './registry'

let activeSource: DisplaySource | null = null

/** Sets the source of the built-in sections; null: the node they are rendered with. */
export function useDisplaySource(source: DisplaySource | null): void {
  activeSource = source
}

class CoreSection extends DisplayProvider {
  override readonly category = 'core'
  readonly #part: keyof DisplaySource

  constructor(part: keyof DisplaySource, title: string, priority: number, refreshS: number) {
    super(CORE_PLUGIN, part, title)
    this.#part = part
    this.priority = priority
    this.refresh_interval_s = refreshS
    this.preferred_format = 'text'
  }

  extractData(node?: unknown): SectionData | Promise<SectionData> {
    const source = activeSource ?? (isNode(node) ? nodeSource(node) : null)
    if (!source) throw new OsError('BAD_REQUEST', `${this.plugin_name}:${this.section_id} needs a node to show`)
    return source[this.#part]()
  }

  override formatText(data: SectionData): string {
    return coreText(this.#part, plain(data))
  }
}

/** New providers of the built-in sections. */
export const coreSections = (): DisplayProvider[] => [
  new CoreSection('identity', 'Identity', 100, 2),
  new CoreSection('config', 'Configuration', 95, 10),
  new CoreSection('transport', 'Transport', 90, 2),
  new CoreSection('pipeline', 'Pipeline', 85, 2),
  new CoreSection('plugins', 'Plugins', 80, 5),
  new CoreSection('db', 'Database', 75, 2),
]
