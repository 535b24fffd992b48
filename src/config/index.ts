// The configuration room: its interface for other rooms.
export { isLoopback } from './check'
export { ConfigStore } from './config-store'
export { TYPE_NAMES } from './convert'
export { allowed, type SchemaRow } from './describe'
export { mayWrite } from './edit'
export { nearest, removeAt } from './keys'
export type { Repaired } from './repair'
export {
  type AnySchema,
  type Config,
  type Fragment,
  openSchema,
  type PlacedMeta,
  type ReceiverConfig,
  type SourceConfig,
  type UplinkConfig,
} from './schema'
export type { Change, Changed, SettingUpdate, WriteLimits } from './store-types'
