// The public interface of this room. The worker is not exported here: it is a separate program, packed into the bundle by the
// build.
export { Database } from './database'
export { type DatabaseOptions, type DatabaseStatus, NO_DATABASE, type SqlConfig } from './database-options'
export { DatabaseManager, type DatabaseManagerOptions } from './manager'
export type { IdAnswer, IdRequest, IdWork } from './server/ids'
export type {
  DeviceList,
  DeviceSummary,
  HistoryBucket,
  HistoryList,
  HistoryQuery,
  PacketDetail,
  PacketList,
  PacketQuery,
  PacketRecord,
  PacketSensor,
  SensorList,
  SensorQuery,
  SensorRecord,
} from './shapes'
export { viewProblem } from './view-problem'
export { gatewayDatabase } from './window-folder-options'
