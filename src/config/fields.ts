// Building stones of the configuration schema. One stone gives the TypeScript type, the default, the check, the sentence a
// person reads, and whether a change needs a restart or must be masked. Nothing here fails: a wrong value is detected by
// check.ts, which asks describe.ts what would have been allowed.
import * as v from 'valibot'
import { isGoodName } from '../wire/names'

export interface FieldMeta {
  /** what the key is for, one sentence */
  readonly help: string
  /** true: a running gateway takes a change only at its next start */
  readonly restart?: boolean
  /** true: shown as ******** everywhere */
  readonly secret?: boolean
  /** options of a medium: means something only to who sends, or to who listens */
  readonly side?: 'send' | 'listen'
}

type Metadata = { [K in keyof FieldMeta]: FieldMeta[K] }
const about = <T>(help: string, meta: Omit<FieldMeta, 'help'>) => v.metadata<T, Metadata>({ help, ...meta })

export interface NumberOptions extends Omit<FieldMeta, 'help'> {
  min?: number
  max?: number
}

/** A whole number within bounds. */
export const int = (standard: number, help: string, { min = 0, max = 2 ** 53 - 1, ...meta }: NumberOptions = {}) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max), about<number>(help, meta)), standard)

/** A finite number within bounds. */
export const num = (standard: number, help: string, { min = 0, max = 1e15, ...meta }: NumberOptions = {}) =>
  v.optional(v.pipe(v.number(), v.finite(), v.minValue(min), v.maxValue(max), about<number>(help, meta)), standard)

export const flag = (standard: boolean, help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  v.optional(v.pipe(v.boolean(), about<boolean>(help, meta)), standard)

export const text = (standard: string, help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  v.optional(v.pipe(v.string(), v.maxLength(4096), about<string>(help, meta)), standard)

/** A text that a compressed text may hold as a name (X16), or is empty. */
export const wireName = (help: string, meta: Omit<FieldMeta, 'help'> = {}) => {
  const rule = 'may not hold . | ; > : @ or control characters, nor begin with & or #'
  const fits = (name: string): boolean => name === '' || isGoodName(name)
  return v.optional(v.pipe(v.string(), v.maxLength(4096), v.check(fits, rule), about<string>(help, meta)), '')
}

/** A text that may be left out; it has no default. */
export const optionalText = (help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  v.optional(v.pipe(v.string(), v.maxLength(4096), about<string>(help, meta)))

/** A name that must be there. */
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
  meta: Omit<FieldMeta, 'help'> = {},
) => v.optional(v.pipe(v.picklist(values), about<T[number]>(help, meta)), standard)

/** A whole number that may be left out; it has no default. */
export const maybeInt = (help: string, { min = 0, max = 2 ** 53 - 1, ...meta }: NumberOptions = {}) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max), about<number>(help, meta)))

export const maybeFlag = (help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  v.optional(v.pipe(v.boolean(), about<boolean>(help, meta)))

/** A value of any schema that may be left out; it has no default. */
export const maybe = <S extends v.GenericSchema>(schema: S, help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  v.optional(v.pipe(schema, about<v.InferOutput<S>>(help, meta)))

/** A schema with its help that may be left out. Its types are named, since written out in full they do not compile. */
type Piped<S extends v.GenericSchema> = v.SchemaWithPipe<readonly [S, v.MetadataAction<v.InferOutput<S>, Metadata>]>
type Described<S extends v.GenericSchema> = v.OptionalSchema<Piped<S>, v.InferInput<Piped<S>>>

/** An object with known keys; keys the schema does not know are kept. */
export const section = <E extends v.ObjectEntries>(
  entries: E,
  help = '',
): Described<v.LooseObjectSchema<E, undefined>> => {
  const schema = v.looseObject(entries)
  return v.optional(v.pipe(schema, about<v.InferOutput<typeof schema>>(help, {})), {} as never) as never
}

/** Any name → a value of one kind (medium names, plugin names). Known names may have their defaults. */
export const map = <E extends v.ObjectEntries, R extends v.GenericSchema>(
  known: E,
  others: R,
  help: string,
): Described<v.ObjectWithRestSchema<E, R, undefined>> => {
  const schema = v.objectWithRest(known, others)
  return v.optional(v.pipe(schema, about<v.InferOutput<typeof schema>>(help, {})), {} as never) as never
}

/** A list of things; empty by default. */
export const list = <S extends v.GenericSchema>(item: S, help: string, meta: Omit<FieldMeta, 'help'> = {}) => {
  const piped = v.pipe(v.array(item), about<v.InferOutput<S>[]>(help, meta))
  return v.optional(piped, [] as v.InferInput<typeof piped>)
}

/** A port of TCP or UDP; 0 lets the system choose. */
export const port = (standard: number, help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  int(standard, help, { ...meta, max: 65535 })

export const anything = (help: string, meta: Omit<FieldMeta, 'help'> = {}) =>
  v.optional(v.pipe(v.unknown(), about<unknown>(help, meta)))
