// The room's door: what other rooms may use of the flash log.
export { decodeRecord } from './decode'
export { exportFacts, exportRow } from './export'
export { FlashLog } from './flashlog'
export { recordLength as recordSize } from './format'
export type { FlashLogOptions, LogStatus, Timers } from './log-options'
export { LogFiles, type LogSource } from './logfiles'
export type { Reader, ReaderOptions } from './reader'
export type {
  BootInfo,
  ClockChange,
  LogRecord,
  LossRange,
  LossReason,
  LossTotals,
  RecordKind,
  TimeQuality,
} from './record'
export { packetUuid, uuidBytes, uuidText } from './uuid'
export { type VerifyResult, verify } from './verify'
