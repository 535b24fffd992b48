// Checks the rules of OpenAPI 3.1 for a document, and the part of JSON Schema that such documents use. An unknown keyword is
// a problem, so that nothing remains unchecked.

// biome-ignore lint/suspicious/noExplicitAny: a document is whatever JSON it is
export type Json = any

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const TYPES = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']
const KEYWORDS = new Set([
  ...['$ref', 'type', 'const', 'enum', 'anyOf', 'properties', 'required', 'additionalProperties', 'propertyNames'],
  ...['items', 'minItems', 'maxItems', 'minLength', 'maxLength', 'minimum', 'maximum', 'pattern', 'format', 'default'],
])

const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value

const isObject = (value: unknown): value is Record<string, Json> => typeOf(value) === 'object'

const at = (document: Json, ref: string): Json =>
  ref
    .replace(/^#\//, '')
    .split('/')
    .reduce((here, name) => here?.[name], document)

/** The problems of a schema itself. */
function schemaProblems(document: Json, schema: Json, where: string): string[] {
  if (typeof schema === 'boolean') return []
  if (!isObject(schema)) return [`${where}: no schema`]
  const wrong: string[] = []
  const say = (ok: unknown, what: string): void => void (ok || wrong.push(`${where}: ${what}`))
  for (const key of Object.keys(schema)) say(KEYWORDS.has(key), `unknown keyword ${key}`)
  const { $ref, type, anyOf, properties, required, items, additionalProperties, propertyNames } = schema
  if ($ref !== undefined) say(isObject(at(document, $ref)), `${$ref} leads nowhere`)
  if (type !== undefined)
    say(
      [type].flat().every(name => TYPES.includes(name)),
      `type ${type}`,
    )
  if (schema.enum !== undefined) say(schema.enum.length > 0, 'an empty enum')
  if (required !== undefined) {
    say(Array.isArray(required) && new Set(required).size === required.length, 'required is no set of names')
    for (const name of required) say(Object.hasOwn(properties ?? {}, name), `${name} is required and not described`)
  }
  if (schema.pattern !== undefined) new RegExp(schema.pattern, 'u')
  if (schema.default !== undefined) wrong.push(...violations(document, schema, schema.default, `${where} default`))
  const inner: [string, Json][] = [
    ...Object.entries(properties ?? {}),
    ...(anyOf ?? []).map((one: Json, k: number): [string, Json] => [String(k), one]),
    ...Object.entries({ items, additionalProperties, propertyNames }).filter(([, one]) => one !== undefined),
  ]
  if (anyOf !== undefined) say(anyOf.length > 0, 'an empty anyOf')
  return [...wrong, ...inner.flatMap(([name, one]) => schemaProblems(document, one, `${where}.${name}`))]
}

/** Where `value` violates `schema`; empty if it is valid. */
export function violations(document: Json, schema: Json, value: Json, where = ''): string[] {
  if (schema === true || !isObject(schema)) return schema === false ? [`${where} may not be`] : []
  if (schema.$ref !== undefined) return violations(document, at(document, schema.$ref), value, where)
  const { type, anyOf, properties = {}, required = [], items, additionalProperties, propertyNames } = schema
  const is = typeOf(value)
  if (type !== undefined && ![type].flat().some(name => name === is || (name === 'number' && is === 'integer')))
    return [`${where}: ${is}, not ${type}`]
  const wrong: string[] = []
  const say = (ok: boolean, what: string): void => void (ok || wrong.push(`${where}: ${what}`))
  if (anyOf)
    say(
      anyOf.some((one: Json) => violations(document, one, value).length === 0),
      'none of anyOf',
    )
  if ('const' in schema) say(value === schema.const, `not ${schema.const}`)
  if (schema.enum) say(schema.enum.includes(value), `not one of ${schema.enum}`)
  if (typeof value === 'string') {
    say(value.length >= (schema.minLength ?? 0) && value.length <= (schema.maxLength ?? Infinity), 'length')
    if (schema.pattern) say(new RegExp(schema.pattern, 'u').test(value), `not ${schema.pattern}`)
    if (schema.format === 'uuid') say(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value), 'no UUID')
  }
  if (typeof value === 'number')
    say(value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity), 'out of range')
  if (Array.isArray(value)) {
    say(value.length >= (schema.minItems ?? 0) && value.length <= (schema.maxItems ?? Infinity), 'number of items')
    if (items !== undefined)
      wrong.push(...value.flatMap((one, k) => violations(document, items, one, `${where}[${k}]`)))
  }
  if (!isObject(value)) return wrong
  for (const name of required) say(Object.hasOwn(value, name), `${name} is missing`)
  for (const [name, one] of Object.entries(value)) {
    if (propertyNames !== undefined) wrong.push(...violations(document, propertyNames, name, `${where}.${name}`))
    const own = Object.hasOwn(properties, name) ? properties[name] : (additionalProperties ?? true)
    wrong.push(...violations(document, own, one, `${where}.${name}`))
  }
  return wrong
}

/** Where the document violates OpenAPI 3.1. */
export function documentProblems(document: Json): string[] {
  const wrong: string[] = []
  const say = (ok: unknown, what: string): void => void (ok || wrong.push(what))
  say(/^3\.1\.\d+$/.test(document.openapi), `openapi ${document.openapi}`)
  say(document.info?.title && document.info?.version, 'info has no title or version')
  const schemes = document.components?.securitySchemes ?? {}
  for (const [name, one] of Object.entries<Json>(schemes)) {
    if (one.type === 'apiKey') say(one.name && ['header', 'query', 'cookie'].includes(one.in), `scheme ${name}`)
    else say(one.type === 'http' && one.scheme, `scheme ${name}`)
  }
  for (const [name, one] of Object.entries(document.components?.schemas ?? {}))
    wrong.push(...schemaProblems(document, one, `schema ${name}`))
  const ids = new Set<string>()
  for (const [path, item] of Object.entries<Json>(document.paths)) {
    say(path.startsWith('/') && !path.includes('?') && !path.includes(':'), `path ${path}`)
    for (const [method, operation] of Object.entries<Json>(item)) {
      const where = `${method} ${path}`
      say(METHODS.includes(method), `${where}: no method`)
      say(!ids.has(operation.operationId), `${where}: operationId ${operation.operationId} twice`)
      ids.add(operation.operationId)
      const seen = new Set<string>()
      for (const { name, in: place, required, schema } of operation.parameters ?? []) {
        say(['path', 'query', 'header', 'cookie'].includes(place), `${where}: ${name} in ${place}`)
        say(!seen.has(`${place} ${name}`), `${where}: ${name} twice`)
        seen.add(`${place} ${name}`)
        if (place === 'path') say(required === true && path.includes(`{${name}}`), `${where}: path parameter ${name}`)
        wrong.push(...schemaProblems(document, schema, `${where} ${name}`))
      }
      for (const [, name] of path.matchAll(/\{(\w+)\}/g)) say(seen.has(`path ${name}`), `${where}: ${name} is missing`)
      for (const one of operation.security ?? [])
        for (const name of Object.keys(one)) say(Object.hasOwn(schemes, name), `${where}: no scheme ${name}`)
      const { requestBody, responses = {} } = operation
      if (requestBody) say(!['get', 'head', 'delete'].includes(method), `${where}: a body`)
      say(
        Object.keys(responses).some(code => code.startsWith('2')),
        `${where}: no success`,
      )
      const contents: [string, Json][] = [
        ...Object.entries(responses),
        ...(requestBody ? Object.entries({ body: requestBody }) : []),
      ]
      for (const [code, response] of contents) {
        say(/^([1-5]\d\d|[1-5]XX|default|body)$/.test(code), `${where}: answer ${code}`)
        if (code !== 'body') say(typeof response.description === 'string', `${where} ${code}: no description`)
        for (const [type, { schema }] of Object.entries<Json>(response.content ?? {})) {
          say(/^[a-z]+\/[a-z0-9.+-]+$/.test(type), `${where} ${code}: type ${type}`)
          wrong.push(...schemaProblems(document, schema, `${where} ${code}`))
        }
      }
    }
  }
  return wrong
}

/** Where an answer violates the document. */
export function answerProblems(
  document: Json,
  { method, path, status, type, json }: { method: string; path: string; status: number; type: string; json: Json },
): string[] {
  const responses = document.paths[path]?.[method.toLowerCase()]?.responses
  if (!responses) return [`${method} ${path} is not described`]
  const content = (responses[status] ?? responses.default)?.content?.[type.split(';')[0]!]
  if (!content) return [`${method} ${path}: ${status} ${type} is not described`]
  return type.startsWith('application/json')
    ? violations(document, content.schema, json, `${method} ${path} ${status}`)
    : []
}
