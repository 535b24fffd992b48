// The configuration room: what other rooms use of it.
export { isLoopback } from './check'
export { TYPE_NAMES } from './convert'
export { allowed, type SchemaRow } from './describe'
export { mayWrite } from './edit'
export { findConfig } from './find'
export { WRITABLE_PREFIXES } from './fragments/web'
export { defaults, defaultText } from './house'
export { installIdOf } from './install'
export { nearest, underPrefix } from './keys'
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
export { ConfigStore } from './store'
export type { Change, Changed, LoadOptions, WriteLimits } from './store-types'
