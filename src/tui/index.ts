// The terminal UI room.
export type { TuiHandlers } from './handlers'
export { tuiPlugin, tuiSettings } from './plugin'
export { type Snapshot, TerminalUi, type TuiOptions } from './service'
export type { TerminalPorts } from './terminal'
