// The schema of Config.json, assembled from its fragments. Plugins and drivers add their own fragments; the parts in
// the specification always exist. `OpenSynaptic_Setting` is not here: normalize.ts converts the older spellings before
// the check.
import * as v from 'valibot'
import { section } from './fields'
import { engineEntries } from './fragments/engine'
import { gatewayEntries, storageEntries } from './fragments/gateway'
import { nodeEntries, resourceEntries } from './fragments/node'
import { pluginEntries, webEntries } from './fragments/web'
import { splitKey } from './keys'

/** In the order of a new file. */
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

/** A part that a plugin or driver adds: the dotted key of its place (`[]`: in each element of a list), and its schema. */
export interface Fragment {
  readonly at: string
  readonly schema: v.GenericSchema
}

/** Metadata of one key of a fragment besides its type (the fields themselves write the other parts of FieldMeta). */
export interface PlacedMeta {
  /** the driver's default, if the configuration omits the key */
  readonly standard?: unknown
  /** links of these media have the key */
  readonly media?: readonly string[]
}

/** The schema inside optional, nullable and pipe. */
export interface UnwrappedSchema {
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

/** The whole schema: to check by, and to walk through. */
export type Schema = v.GenericSchema<unknown, Config> & AnySchema

/** Removes the wrappers of a schema and keeps their metadata. */
export function openSchema(schema: AnySchema): UnwrappedSchema {
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

/** A fragment during assembly, on the path to its place. */
interface Piece extends Fragment {
  readonly path: readonly string[]
}

/** The schema with the fragments in their places. A fragment never replaces an existing key. */
export function assemble(fragments: readonly Fragment[] = []): Schema {
  const pieces = fragments.map(({ at, schema }) => ({ path: splitKey(at), schema, at }))
  return place(baseSchema as unknown as AnySchema, pieces) as never
}

/** Rebuilds each part of the schema only once, however many pieces are inserted: a start waits for this. */
function place(schema: AnySchema, pieces: readonly Piece[]): AnySchema {
  if (pieces.length === 0) return schema
  const { core, standard } = openSchema(schema)
  const entries: Record<string, AnySchema> = { ...core.entries }
  const heads = new Map<string, Piece[]>()
  for (const { path, schema, at } of pieces) {
    const [head = '', ...tail] = path
    const here = heads.get(head) ?? []
    heads.set(head, here)
    here.push({ path: tail, schema, at })
  }
  for (const [head, here] of heads) {
    const name = head.replace(/\[\]$/, '')
    const inside: Piece[] = []
    for (const piece of here) {
      if (piece.path.length > 0) inside.push(piece)
      else if (entries[name] || inside.length > 0) {
        throw new RangeError(`configuration fragment ${piece.at} is there twice`)
      } else entries[name] = piece.schema as unknown as AnySchema
    }
    if (inside.length === 0) continue
    const old = entries[name]
    const under = (part: AnySchema): AnySchema => place(part, inside)
    entries[name] = name === head ? under(old ?? openSection()) : inEach(old, under, inside[0]!.at)
  }
  const made = entries as never
  const whole = core.type === 'object_with_rest' ? v.objectWithRest(made, core.rest as never) : v.looseObject(made)
  return rewrap(schema, whole as never, standard)
}

const openSection = (): AnySchema => v.optional(v.looseObject({}), {}) as never

/** The list with its elements changed. */
function inEach(list: AnySchema | undefined, change: (item: AnySchema) => AnySchema, at: string): AnySchema {
  const { core, standard } = openSchema(list ?? openSection())
  if (!list || !core.item) throw new RangeError(`configuration fragment ${at}: there is no such list`)
  return rewrap(list, v.array(change(core.item) as never) as never, standard)
}

/** `made` with the help text and the default of the schema it replaces. */
function rewrap(old: AnySchema, made: AnySchema, standard: unknown): AnySchema {
  const help = openSchema(old).pipe.find(item => item.type === 'metadata')
  const piped = help ? v.pipe(made as never, help as never) : made
  return (old.type === 'optional' ? v.optional(piped as never, standard as never) : piped) as never
}
