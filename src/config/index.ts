// The configuration room: what other rooms use of it.
export { isLoopback } from './check'
export { ConfigStore } from './config-store'
export { TYPE_NAMES } from './convert'
export { defaults, defaultText } from './default-text'
export { allowed, type SchemaRow } from './describe'
export { mayWrite } from './edit'
export { WRITABLE_PREFIXES } from './fragments/web'
export { nearest } from './keys'
export { lastGoodPath } from './read'
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
export type { Change, Changed, LoadOptions, WriteLimits } from './store-types'
