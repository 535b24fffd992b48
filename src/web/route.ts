// The form of a route: who may call it, its input and its answer, as schemas that check requests, generate openapi.json
// and are walked by tests. A route is closed unless its role is 'open'.
import type { IncomingMessage } from 'node:http'
import type { GenericSchema } from 'valibot'
import { OsError } from '../lib/errors'
import type { Access, WebSession } from './access'
import type { Body } from './body'
import type { WebContext } from './context'
import { decodePart, type QuerySchema, type QueryValues } from './query'

/** The server's data about itself. */
export interface ServiceFacts {
  readonly uptimeS: number
  readonly host: string
  readonly port: number
  /** UNIX milliseconds */
  readonly now: number
  /** answers by status class since the start: {"2xx": 10, …}, and connections */
  readonly http: Readonly<Record<string, number>>
}

export interface Call<B = Body> {
  readonly context: WebContext
  readonly query: QueryValues
  /** percent-decoded path segments; '' if the path ends before the segment */
  readonly params: Readonly<Record<string, string>>
  readonly service: ServiceFacts
  /** checked by the route's schema; {} for methods without a body */
  readonly body: B
  /** the caller; open routes have none */
  readonly session: WebSession
  /** address of the caller */
  readonly remote: string
  /** aborted when the caller disconnects */
  readonly signal: AbortSignal
  readonly request: IncomingMessage
  /** logging in and out */
  readonly access: Access
  /** the table that contains this route */
  readonly routes: readonly Route[]
}

/** An answer that is a file: `write` writes its bytes to a sink that waits for the reader. */
export class Download {
  constructor(
    readonly name: string,
    readonly write: (sink: (bytes: Uint8Array) => Promise<void>) => Promise<unknown>,
  ) {}
}

/** An answer that is not JSON. */
export class Text {
  constructor(
    readonly type: string,
    readonly body: string,
    readonly status = 200,
  ) {}
}

/** viewer reads; operator also switches media and plugins and runs read-only commands; admin may do everything. */
type RouteRole = 'open' | 'viewer' | 'operator' | 'admin'

/**
 * What a route changes. 'state': refused while web_user.read_only; 'keys': additionally only keys below
 * web_user.writable_config_prefixes. Absent: nothing that read_only protects.
 */
type WriteRule = 'state' | 'keys'

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

export interface Route {
  readonly method: Method
  readonly path: string
  readonly summary: string
  readonly role: RouteRole
  readonly write?: WriteRule
  readonly query?: QuerySchema
  /** required JSON of the request; POST and PUT without it accept any object and ignore it */
  readonly body?: GenericSchema
  /** body of a 200 */
  readonly answer?: GenericSchema
  /** true: its answer is a Download */
  readonly file?: boolean
  /** true: writes its own log line; other routes with a write rule get one */
  readonly audited?: boolean
  /** names in the body for the log line of a write, never values */
  readonly keys?: (body: Body) => string[]
  /** true: its answer is the stream of events.ts, and `run` is not called */
  readonly stream?: boolean
  /** returns the body of a 200, a Text or a Download; throws OsError for every other answer */
  run(call: Call): object | Promise<object>
}

/** A route by its method and path, as in docs/http.md; keeps the type of a body schema for its handler. */
export function route<S extends GenericSchema<unknown, unknown>>(
  name: `${Method} /${string}`,
  made: Omit<Route, 'method' | 'path' | 'run' | 'body'> & {
    body?: S
    run(call: Call<S extends GenericSchema<unknown, infer B> ? B : Body>): object | Promise<object>
  },
): Route {
  const [method, path] = name.split(' ')
  return { method, path, ...made } as Route
}

/** Path and parameters of a request that matches `pattern`. Throws NOT_FOUND, BAD_REQUEST. */
export function matched(
  routes: readonly Route[],
  pattern: string,
  req: { readonly path: string; readonly params: Readonly<Record<string, string>> },
): { path: string; params: Record<string, string> } {
  const params: Record<string, string> = {}
  if (req.path.length > 1 && req.path.endsWith('/')) {
    // the router treats '/x/' as '/x'; here it is '/x/:id' with an empty id if that exists, else unknown
    const longer = routes.find(route => route.path.startsWith(`${pattern}/:`))
    if (!longer) throw new OsError('NOT_FOUND', 'not found')
    return { path: longer.path, params }
  }
  for (const [, name] of pattern.matchAll(/:(\w+)/g)) params[name!] = decodePart(req.params[name!] ?? '', 'the path')
  return { path: pattern, params }
}
