// Building blocks of the configuration schema. Each gives the TypeScript type, the default, the check, the help text,
// and whether a change needs a restart or must be masked. No errors here: check.ts detects a wrong value and gets the
// allowed values from describe.ts.
import * as v from 'valibot'
import { isGoodName } from '../wire/names'

export interface FieldMeta {
  /** purpose of the key, one sentence */
  readonly help: string
  /** true: a running gateway applies a change only at its next start */
  readonly restart?: boolean
  /** true: shown as ******** everywhere */
  readonly secret?: boolean
  /** options of a medium: used only by a sender, or only by a listener */
  readonly side?: 'send' | 'listen'
}

type More = Omit<FieldMeta, 'help'>

/** the `restart` of most keys that need one */
export const atStart = { restart: true }

type Metadata = { [K in keyof FieldMeta]: FieldMeta[K] }
const about = <T>(help: string, meta: More) => v.metadata<T, Metadata>({ help, ...meta })

export interface NumberOptions extends More {
  min?: number
  max?: number
}

/** A whole number within bounds. */
export const int = (standard: number, help: string, { min = 0, max = 2 ** 53 - 1, ...meta }: NumberOptions = {}) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max), about<number>(help, meta)), standard)

/** The option `max_packet` of a medium. */
export const maxPacket = (standard: number, max: number, min = 64) =>
  int(standard, 'bytes of the largest packet', { min, max })

/** A finite number within bounds. */
export const num = (standard: number, help: string, { min = 0, max = 1e15, ...meta }: NumberOptions = {}) =>
  v.optional(v.pipe(v.number(), v.finite(), v.minValue(min), v.maxValue(max), about<number>(help, meta)), standard)

export const flag = (standard: boolean, help: string, meta: More = {}) =>
  v.optional(v.pipe(v.boolean(), about<boolean>(help, meta)), standard)

export const text = (standard: string, help: string, meta: More = {}) =>
  v.optional(v.pipe(v.string(), v.maxLength(4096), about<string>(help, meta)), standard)

/** A text that is allowed as a name in a compressed text (X16), or is empty. */
export const wireName = (help: string, meta: More = {}) => {
  const rule = 'must not contain . | ; > : @ or control characters, nor begin with & or #'
  const fits = (name: string): boolean => name === '' || isGoodName(name)
  return v.optional(v.pipe(v.string(), v.maxLength(4096), v.check(fits, rule), about<string>(help, meta)), '')
}

/** An optional text without a default. */
export const optionalText = (help: string, meta: More = {}) =>
  v.optional(v.pipe(v.string(), v.maxLength(4096), about<string>(help, meta)))

/** A required name. */
export const name = (help: string) =>
  v.pipe(
    v.string(),
    v.regex(/^[A-Za-z0-9_-]{1,64}$/, 'a name of 1 to 64 letters, digits, _ or -'),
    about<string>(help, {}),
  )

export const choice = <const T extends readonly string[]>(
  values: T,
  standard: T[number],
  help: string,
  meta: More = {},
) => v.optional(v.pipe(v.picklist(values), about<T[number]>(help, meta)), standard)

/** An optional whole number without a default. */
export const maybeInt = (help: string, { min = 0, max = 2 ** 53 - 1, ...meta }: NumberOptions = {}) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max), about<number>(help, meta)))

export const maybeFlag = (help: string) => maybe(v.boolean(), help)

/** An optional value of any schema, without a default. */
export const maybe = <S extends v.GenericSchema>(schema: S, help: string, meta: More = {}) =>
  v.optional(v.pipe(schema, about<v.InferOutput<S>>(help, meta)))

/** An optional schema with its help. The types are named because the inferred ones do not compile. */
type Piped<S extends v.GenericSchema> = v.SchemaWithPipe<readonly [S, v.MetadataAction<v.InferOutput<S>, Metadata>]>
type Described<S extends v.GenericSchema> = v.OptionalSchema<Piped<S>, v.InferInput<Piped<S>>>

/** An object with known keys; unknown keys are kept. */
export const section = <E extends v.ObjectEntries>(
  entries: E,
  help = '',
): Described<v.LooseObjectSchema<E, undefined>> => {
  const schema = v.looseObject(entries)
  return v.optional(v.pipe(schema, about<v.InferOutput<typeof schema>>(help, {})), {} as never) as never
}

/** Any name → a value of one kind (medium names, plugin names). Known names may have separate defaults. */
export const map = <E extends v.ObjectEntries, R extends v.GenericSchema>(
  known: E,
  others: R,
  help: string,
): Described<v.ObjectWithRestSchema<E, R, undefined>> => {
  const schema = v.objectWithRest(known, others)
  return v.optional(v.pipe(schema, about<v.InferOutput<typeof schema>>(help, {})), {} as never) as never
}

/** A list; empty by default. */
export const list = <S extends v.GenericSchema>(item: S, help: string, meta: More = {}) => {
  const piped = v.pipe(v.array(item), about<v.InferOutput<S>[]>(help, meta))
  return v.optional(piped, [] as v.InferInput<typeof piped>)
}

/** A port of TCP or UDP; 0 lets the system choose. */
export const port = (standard: number, help = 'port of the peer, or to listen on (0: any free one)', meta: More = {}) =>
  int(standard, help, { ...meta, max: 65535 })
