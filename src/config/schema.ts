// The schema of Config.json, put together from its fragments. Plugins and drivers hand in fragments of their own; the
// parts named in the specification are always there. `OpenSynaptic_Setting` is not here: normalize.ts turns the older
// spellings into ours before anything is checked.
import * as v from 'valibot'
import { section } from './fields'
import { engineEntries } from './fragments/engine'
import { gatewayEntries, storageEntries } from './fragments/gateway'
import { nodeEntries, resourceEntries } from './fragments/node'
import { pluginEntries, webEntries } from './fragments/web'
import { joinKey, splitKey } from './keys'

/** In the order in which a new file is written. */
export const baseSchema = v.looseObject({
  ...nodeEntries,
  engine_settings: engineEntries.engine_settings,
  payload_switches: engineEntries.payload_switches,
  gateway: gatewayEntries.gateway,
  receiver: gatewayEntries.receiver,
  RESOURCES: section({ ...resourceEntries, ...pluginEntries }),
  security_settings: engineEntries.security_settings,
  storage: storageEntries.storage,
  web_user: webEntries.web_user,
})

export type Config = v.InferOutput<typeof baseSchema>
export type UplinkConfig = Config['gateway']['uplinks'][number]
export type ReceiverConfig = Config['gateway']['receivers'][number]
export type SourceConfig = NonNullable<Config['gateway']['sources']>[number]

/** A part that a plugin or driver adds: the dotted key of its place, and what is there. */
export interface Fragment {
  readonly at: string
  readonly schema: v.GenericSchema
}

/** What lies under optional, nullable and pipe. */
export interface Opened {
  readonly core: AnySchema
  readonly pipe: readonly PipeItem[]
  readonly standard: unknown
  readonly nullable: boolean
}

export interface PipeItem {
  readonly kind: string
  readonly type: string
  readonly requirement?: unknown
  readonly metadata?: Record<string, unknown>
  readonly message?: unknown
}

export interface AnySchema {
  readonly kind: 'schema'
  readonly type: string
  readonly entries?: Record<string, AnySchema>
  readonly rest?: AnySchema
  readonly item?: AnySchema
  readonly value?: AnySchema
  readonly wrapped?: AnySchema
  readonly default?: unknown
  readonly options?: readonly (string | AnySchema)[]
  readonly pipe?: readonly PipeItem[]
}

/** Takes the wrappers off a schema and keeps what they say. */
export function openSchema(schema: AnySchema): Opened {
  let standard: unknown
  let nullable = false
  let core = schema
  while ((core.type === 'optional' || core.type === 'nullable') && core.wrapped) {
    if (core.type === 'nullable') nullable = true
    if (standard === undefined) standard = core.default
    core = core.wrapped
  }
  return { core, pipe: core.pipe ?? [], standard, nullable }
}

/** The schema with the fragments in their places. A fragment never replaces a key that is there already. */
export function assemble(fragments: readonly Fragment[] = []): v.GenericSchema<unknown, Config> {
  let schema = baseSchema as unknown as AnySchema
  for (const fragment of fragments) schema = place(schema, splitKey(fragment.at), fragment.schema as never)
  return schema as never
}

function place(schema: AnySchema, path: readonly string[], piece: AnySchema): AnySchema {
  const [head, ...rest] = path
  if (head === undefined) return piece
  const { core, pipe } = openSchema(schema)
  const entries = core.entries ?? {}
  const old = entries[head] ?? (rest.length > 0 ? (section({}) as unknown as AnySchema) : undefined)
  if (rest.length === 0 && old) throw new RangeError(`configuration fragment ${joinKey(path)} is there twice`)
  const next = { ...entries, [head]: old ? place(old, rest, piece) : piece } as never
  const made =
    core.type === 'object_with_rest'
      ? v.objectWithRest(next, core.rest as never)
      : v.looseObject(next as v.ObjectEntries)
  const help = pipe.find(item => item.type === 'metadata')
  const piped = help ? v.pipe(made, help as never) : made
  return (schema.type === 'optional' ? v.optional(piped, {} as never) : piped) as unknown as AnySchema
}
