// The terminal UI room.
export { tuiPlugin, tuiSettings } from './plugin'
export { TerminalUi, type TuiHandlers, type TuiOptions, type TuiSnapshot } from './service'
export type { TerminalPorts } from './terminal'
