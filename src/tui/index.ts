// The terminal UI room.
export type { TuiHandlers } from './handlers'
export { tuiPlugin, tuiSettings } from './plugin'
export { TerminalUi, type TuiOptions, type TuiSnapshot } from './service'
export type { TerminalPorts } from './terminal'
