// openapi.json from the table of routes: bodies and answers from the valibot schemas that check them, query keys from
// the fields that parse them. So the description always agrees with the server.
import { toJsonSchema } from '@valibot/to-json-schema'
import type { GenericSchema } from 'valibot'
import { ERRORS } from '../lib/errors'
import { ASSETS } from './assets'
import type { QueryField, QuerySchema } from './query'
import type { Route } from './route'

type Json = Record<string, unknown>

const schemaOf = (schema: GenericSchema): Json => {
  // a check without a JSON form is only missing in the description
  const { $schema: _, ...json } = toJsonSchema(schema as never, { errorMode: 'ignore' }) as Json
  return json
}

function fieldOf(field: QueryField): Json {
  switch (field.type) {
    case 'integer': {
      const { min, max, fallback } = field
      const bound = (n: number): boolean => Math.abs(n) < Number.MAX_SAFE_INTEGER
      return {
        type: 'integer',
        ...(bound(min) && { minimum: min }),
        ...(bound(max) && { maximum: max }),
        ...(fallback !== undefined && { default: fallback }),
      }
    }
    case 'choice':
      return { type: 'string', enum: field.values, default: field.fallback }
    case 'flag':
      return { type: 'boolean', default: false }
    case 'text':
      return { type: 'string' }
  }
}

const parameters = (path: string, query: QuerySchema = {}): Json[] => [
  ...[...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  })),
  ...Object.entries(query).map(([name, field]) => ({
    name,
    in: 'query',
    required: field.type === 'text' && field.required === true,
    schema: fieldOf(field),
  })),
]

const errorRef = { $ref: '#/components/schemas/Error' }
const failure = (description: string): Json => ({
  description,
  content: { 'application/json': { schema: errorRef } },
})

function contentOf({ answer, stream, file, path }: Route): Json {
  if (answer) return { 'application/json': { schema: schemaOf(answer) } }
  if (file) return { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }
  if (stream) return { 'text/event-stream': { schema: { type: 'string' } } }
  const type = Object.hasOwn(ASSETS, path) ? ASSETS[path as keyof typeof ASSETS].type.split(';')[0]! : 'text/plain'
  return { [type]: { schema: { type: 'string' } } }
}

function operation(route: Route): Json {
  const { summary, role, write, body, query, path } = route
  return {
    summary,
    operationId: `${route.method.toLowerCase()}${path.replace(/[^a-z0-9]+/gi, '_')}`,
    parameters: parameters(path, query),
    security: role === 'open' ? [] : [{ adminToken: [] }],
    'x-role': role,
    'x-write-rule': write ?? 'none',
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body) } } } }),
    responses: {
      200: { description: 'done', content: contentOf(route) },
      400: failure('invalid request'),
      ...(role !== 'open' && { 401: failure('admin token required') }),
      ...((write || role !== 'open') && { 403: failure('role, read_only or writable_config_prefixes forbid it') }),
      ...((query || path.includes(':')) && { 404: failure('not found') }),
      default: failure('any other error'),
    },
  }
}

/** The whole document, OpenAPI 3.1. */
export function openApi(routes: readonly Route[], version: string): object {
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'os-node', version, description: 'Sensor gateway: readings, links, configuration, commands.' },
    paths,
    components: {
      securitySchemes: {
        adminToken: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Admin-Token',
          description: 'the admin token, or the session of POST /api/login',
        },
      },
      schemas: {
        Error: {
          type: 'object',
          required: ['ok', 'error', 'code'],
          properties: {
            ok: { const: false },
            error: { type: 'string' },
            code: { type: 'string', enum: Object.keys(ERRORS) },
          },
        },
      },
    },
  }
}
