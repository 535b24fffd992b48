// The sections of the display providers: the list comes from the gateway, each section is requested when it is opened.
import { useState } from 'preact/hooks'
import { ui } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import type { ProviderInfo } from '../lib/types'
import { Card, Chip, Choice, Empty, Loaded } from '../ui/parts'
import { TreeView } from '../ui/tree'

const LEAST_REFRESH_S = 2

type Format = 'json' | 'text'
/** the data in the page's own form, or the provider's text; its HTML is for pages that trust it */
const FORMATS: readonly (readonly [Format, string])[] = [
  ['json', 'Data'],
  ['text', 'Text'],
]

function Section({ info }: { info: ProviderInfo }) {
  const [open, setOpen] = useState(false)
  const [format, setFormat] = useState<Format>('json')
  const { section_path, display_name, category, refresh_interval_s = 10, render_mode, supported_formats = [] } = info
  const found = useResource<{ data: unknown }>(
    open ? `/api/display/render/${encodeURIComponent(section_path)}?format=${format}` : null,
    Math.max(LEAST_REFRESH_S, refresh_interval_s) * 1000,
  )
  return (
    <details class="card category" open={open} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>{display_name}</h2>
        <Chip>{category}</Chip>
        <span class="quiet small mono">{section_path}</span>
      </summary>
      {open && (
        <>
          {render_mode !== 'json_only' && supported_formats.includes('text') && (
            <Choice
              label={`Format of ${display_name}`}
              value={format}
              choices={FORMATS}
              onChoose={next => setFormat(next)}
            />
          )}
          <Loaded from={found} what="this section">
            {({ data }) => (format === 'text' ? <pre class="scroll">{String(data)}</pre> : <TreeView value={data} />)}
          </Loaded>
        </>
      )}
    </details>
  )
}

export function Sections() {
  const found = useResource<{ metadata: { providers: readonly ProviderInfo[] } }>('/api/display/providers')
  const { expose_sections = [] } = useStore(ui)
  return (
    <Loaded from={found} what="sections">
      {({ metadata: { providers } }) => {
        const shown = providers.filter(
          ({ section_id, section_path }) =>
            expose_sections.length === 0 ||
            expose_sections.includes(section_path) ||
            expose_sections.includes(section_id),
        )
        if (shown.length === 0)
          return (
            <Card>
              <Empty>No sections</Empty>
            </Card>
          )
        return (
          <div class="stack">
            {shown.map(info => (
              <Section key={info.section_path} info={info} />
            ))}
          </div>
        )
      }}
    </Loaded>
  )
}
