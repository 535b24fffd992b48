// The room's door. The worker is not exported here: main.ts loads ./worker by itself, in the worker thread only.
export { Database, type DatabaseOptions, type DatabaseStatus, type SqlConfig } from './database'
export { DatabaseManager, type DatabaseManagerOptions } from './manager'
export type {
  DeviceList,
  DeviceSummary,
  PacketDetail,
  PacketList,
  PacketQuery,
  PacketRecord,
  PacketSensor,
  SensorList,
  SensorQuery,
  SensorRecord,
} from './shapes'
