// The terminal UI as a plugin: its settings, and its commands for `os-node plugin-cmd tui …` and POST /api/plugins.
// Inside a gateway it renders; the live views need the caller's terminal, so they run in the caller's process.
import type { PluginDefinition } from '../services'
import { TerminalUi } from './service'

/** Settings of RESOURCES.service_plugins.tui in the terminal UI's form. */
export function tuiSettings(settings: Readonly<Record<string, unknown>> | undefined): {
  section: string | null
  interval: number
} {
  const { default_section: section, default_interval: interval } = settings ?? {}
  return {
    section: typeof section === 'string' && section !== '' ? section : null,
    interval: typeof interval === 'number' ? interval : 2.0,
  }
}

export const tuiPlugin: PluginDefinition = {
  name: 'tui',
  summary: 'the terminal user interface',
  create: host =>
    new TerminalUi(host.node, {
      clock: host.clock,
      standard: tuiSettings(host.settings()),
      ...(host.gateway && { terminal: null }),
    }),
}
