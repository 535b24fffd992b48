// The base class for a plugin's own section (specification, "Display provider and section"): the plugin provides the
// data; the five formats are derived from it unless it formats them itself. The field names are those of the clients.
import { DISPLAY_FORMATS, type DisplayFormat, htmlOf, tableOf, textOf } from './formats'
import { type Plain, plain } from './plain'

/** A dict, or a list of row dicts for tables. */
export type SectionData = object

/** How a page may show the provider's HTML: escaped and filtered, unchanged, or not at all. */
export type RenderMode = 'safe_html' | 'trusted_html' | 'json_only'
const RENDER_MODES: readonly RenderMode[] = ['safe_html', 'trusted_html', 'json_only']

/** Metadata of a provider for clients (GET /api/display/providers). */
export interface ProviderMetadata {
  readonly plugin_name: string
  readonly section_id: string
  /** `<plugin_name>:<section_id>` */
  readonly section_path: string
  readonly display_name: string
  readonly category: string
  readonly priority: number
  readonly refresh_interval_s: number
  readonly supported_formats: readonly DisplayFormat[]
  readonly preferred_format: DisplayFormat
  readonly render_mode: RenderMode
}

export abstract class DisplayProvider {
  readonly plugin_name: string
  readonly section_id: string
  readonly display_name: string
  category = 'plugin'
  /** 0–100; higher is listed earlier */
  priority = 50
  /** refresh interval of a live view */
  refresh_interval_s = 2.0
  preferred_format: DisplayFormat = 'html'
  render_mode: RenderMode = 'safe_html'

  /** Section name: `<pluginName>:<sectionId>`, both of letters, digits, `_`, `-` and `.`. */
  constructor(pluginName: string, sectionId: string, displayName: string = sectionId) {
    this.plugin_name = String(pluginName).trim()
    this.section_id = String(sectionId).trim()
    this.display_name = String(displayName).trim() || this.section_id
  }

  /** The section's data. `node`: the running node, if any; `options`: the caller's additions. */
  abstract extractData(node?: unknown, options?: Readonly<Record<string, unknown>>): SectionData | Promise<SectionData>

  formatJson(data: SectionData): unknown {
    return data
  }

  formatHtml(data: SectionData): string {
    return htmlOf(plain(data))
  }

  formatText(data: SectionData): string {
    return textOf(plain(data))
  }

  formatTable(data: SectionData): readonly unknown[] {
    return tableOf(plain(data))
  }

  formatTree(data: SectionData): unknown {
    return data
  }

  /** Override to offer fewer formats; JSON is always offered, and a format that is not offered is answered as JSON. */
  supportsFormat(_format: DisplayFormat): boolean {
    return true
  }
}

/** The formats of a provider, always including JSON. */
export const formatsOf = (provider: DisplayProvider): DisplayFormat[] =>
  DISPLAY_FORMATS.filter(format => format === 'json' || offers(provider, format))

function offers(provider: DisplayProvider, format: DisplayFormat): boolean {
  try {
    return provider.supportsFormat(format) === true
  } catch {
    // a format whose query fails is not offered; the section itself is still shown as JSON
    return false
  }
}

/** Priority, limited to 0–100 in case the provider changed it after registration. */
export const priorityOf = ({ priority }: DisplayProvider): number =>
  Number.isFinite(priority) ? Math.min(100, Math.max(0, priority)) : 50

/** The metadata for clients; a provider in plain JavaScript may have any values, so each field is converted. */
export function metadataOf(provider: DisplayProvider): ProviderMetadata {
  const { plugin_name, section_id, display_name, category, refresh_interval_s: refresh, render_mode: mode } = provider
  const supported_formats = formatsOf(provider)
  return {
    plugin_name,
    section_id,
    section_path: `${plugin_name}:${section_id}`,
    display_name: String(display_name ?? section_id),
    category: String(category ?? 'plugin'),
    priority: priorityOf(provider),
    refresh_interval_s: Number.isFinite(refresh) && refresh > 0 ? refresh : 2,
    supported_formats,
    preferred_format: supported_formats.includes(provider.preferred_format) ? provider.preferred_format : 'json',
    render_mode: RENDER_MODES.includes(mode) ? mode : 'safe_html',
  }
}

/** The data in one format, as plain data or text. Throws the formatter's errors. */
export function formatAs(provider: DisplayProvider, data: Plain, format: DisplayFormat): Plain {
  const section = data as unknown as SectionData
  switch (format) {
    case 'html':
      return String(provider.formatHtml(section))
    case 'text':
      return String(provider.formatText(section))
    case 'table':
      return plain(provider.formatTable(section))
    case 'tree':
      return plain(provider.formatTree(section))
    case 'json':
      return plain(provider.formatJson(section))
  }
}
