// The terminal UI room.
export { sectionList, type TuiHandlers } from './handlers'
export { type Snapshot, TerminalUi, type TuiOptions } from './service'
export { processPorts, type TerminalPorts } from './terminal'
