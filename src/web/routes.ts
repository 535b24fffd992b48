// The one table of routes. A route is closed unless it says `auth: 'open'`; tests walk this table (S2). `query` lists the
// keys a handler sees, already checked. A handler returns the body of a 200, an asset, or throws an OsError; none of them
// writes to the connection itself.
import { asOsError, OsError } from '../lib/errors'
import { ASSETS, type Asset } from './assets'
import type { Body } from './body'
import type { PacketQuery, Queries, SensorQuery, WebContext } from './context'
import { limit, offset, type QuerySchema, type QueryValues, seconds, text } from './query'

/** What the server tells about itself in the dashboard. */
export interface ServiceFacts {
  readonly uptimeS: number
  readonly host: string
  readonly port: number
  /** UNIX milliseconds */
  readonly now: number
}

export interface Call {
  readonly context: WebContext
  readonly query: QueryValues
  /** percent-decoded path segments; '' where the path ends before the segment */
  readonly params: Readonly<Record<string, string>>
  readonly service: ServiceFacts
  /** {} for methods that have none */
  readonly body: Body
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  /** 'token': needs the admin token while auth is on */
  readonly auth: 'open' | 'token'
  readonly query?: QuerySchema
  /** changes something: refused while web_user.read_only */
  readonly writes?: boolean
  run(call: Call): object | Promise<object>
  readonly asset?: Asset
}

const health = (): object => ({ ok: true, service: 'web_user' })

/** One part of the dashboard; a part that fails shows its error and costs the others nothing. */
function section(context: WebContext, name: string, read: () => unknown): unknown {
  try {
    return read()
  } catch (thrown) {
    const error = asOsError(thrown)
    context.logger.warn(`dashboard section ${name}: ${error.code} ${error.message}`)
    return { error: error.code === 'INTERNAL' ? 'internal error' : error.message, code: error.code }
  }
}

function dashboard({ context, query, service }: Call): object {
  const table: Record<string, () => unknown> = {
    ...context.sections,
    status: () => context.status(),
    latest: () => context.latest(),
  }
  const asked = String(query.sections ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(name => Object.hasOwn(table, name))
  // only unknown names, or none: everything
  const names = asked.length > 0 ? new Set(asked) : Object.keys(table)
  const parts: [string, unknown][] = []
  for (const name of names) parts.push([name, section(context, name, table[name]!)])
  const { read_only = false, management_enabled = true } = context.settings?.() ?? {}
  return {
    ok: true,
    dashboard: {
      service: {
        name: 'web_user',
        running: true,
        uptime_s: service.uptimeS,
        host: service.host,
        port: service.port,
        read_only,
        management_enabled,
        auth_enabled: context.auth.enabled(),
      },
      ...Object.fromEntries(parts),
      timestamp: Math.floor(service.now / 1000),
      service_config: { version: context.version },
    },
  }
}

/** path segments no configuration key has, and no walk over an object should follow (S8) */
const UNSAFE_SEGMENT = /(^|\.)(__proto__|prototype|constructor)(\.|$)/

function config({ context, query }: Call): object {
  const { key } = query as { key?: string }
  if (key === undefined) return { ok: true, config: context.config.get() }
  if (UNSAFE_SEGMENT.test(key) || !context.config.has(key)) {
    throw new OsError('CONFIG_KEY', 'key not found', { details: { key } })
  }
  return { ok: true, key, value: context.config.get(key) }
}

/** Runs one query on the database; what the database throws without a code is told as unavailable (X27). */
async function ask<T>({ context }: Call, run: (db: Queries) => Promise<T>): Promise<T> {
  try {
    const db = typeof context.db === 'function' ? context.db() : context.db
    if (!db) throw new OsError('DB_NOT_CONFIGURED', 'database not configured')
    return await run(db)
  } catch (thrown) {
    const error = asOsError(thrown, 'DB_UNAVAILABLE')
    throw error.code.startsWith('DB_') ? error : new OsError('DB_UNAVAILABLE', error.message, { cause: error })
  }
}

async function packet(call: Call): Promise<object> {
  const uuid = call.params.uuid ?? ''
  if (uuid.trim() === '') throw new OsError('BAD_REQUEST', 'packet_uuid is required')
  const found = await ask(call, db => db.queryPacket(uuid))
  if (!found) throw new OsError('NOT_FOUND', 'packet not found', { details: { packet_uuid: uuid } })
  return { ok: true, ...found }
}

/**
 * Switches a medium (`enabled`, default true), or makes it anew (`reload`: true); both: first the one, then the other.
 */
async function changeTransport({ context, body }: Call): Promise<object> {
  const { medium, enabled, reload = false } = body
  if (typeof medium !== 'string' || medium.trim() === '') throw new OsError('BAD_REQUEST', 'medium is required')
  for (const [key, value] of Object.entries({ enabled: enabled ?? true, reload }))
    if (typeof value !== 'boolean')
      throw new OsError('BAD_REQUEST', `${key} must be true or false`, { details: { key } })
  if (!context.media) throw new OsError('FORBIDDEN', 'media cannot be switched here')
  const switched =
    reload !== true || enabled !== undefined ? await context.media.toggle(medium, enabled !== false) : undefined
  const state = { ok: true, medium: switched?.name, enabled: switched?.enabled }
  if (reload !== true) return state
  const { name, reloaded } = await context.media.reload(medium)
  return { ...state, ok: reloaded, medium: name, reloaded }
}

/** Sets one output: `name` (or source.name) and `value` 0 or 1. */
async function setOutput({ context, body }: Call): Promise<object> {
  const { name, value } = body
  if (typeof name !== 'string' || name.trim() === '') throw new OsError('BAD_REQUEST', 'name is required')
  if (value !== 0 && value !== 1)
    throw new OsError('BAD_REQUEST', 'value must be 0 or 1', { details: { key: 'value' } })
  if (!context.outputs) throw new OsError('FORBIDDEN', 'outputs cannot be set here')
  return { ok: true, ...(await context.outputs.set(name, value)) }
}

const page = (path: keyof typeof ASSETS): Route => ({
  method: 'GET',
  path,
  auth: 'open',
  asset: ASSETS[path],
  run: () => ASSETS[path],
})

export const ROUTES: readonly Route[] = [
  page('/'),
  page('/app.js'),
  page('/app.css'),
  page('/favicon.svg'),
  page('/favicon.ico'),
  { method: 'GET', path: '/health', auth: 'open', run: health },
  { method: 'GET', path: '/api/health', auth: 'open', run: health },
  { method: 'GET', path: '/api/dashboard', auth: 'token', query: { sections: text }, run: dashboard },
  { method: 'GET', path: '/api/config', auth: 'token', query: { key: text }, run: config },
  {
    method: 'GET',
    path: '/api/transport',
    auth: 'token',
    run: ({ context }) => ({ ok: true, ...context.transport() }),
  },
  {
    method: 'POST',
    path: '/api/reload',
    auth: 'token',
    writes: true,
    run: async ({ context }) => {
      if (!context.reload) throw new OsError('FORBIDDEN', 'the configuration cannot be read again here')
      return { ok: true, ...(await context.reload()) }
    },
  },
  { method: 'POST', path: '/api/transport', auth: 'token', writes: true, run: changeTransport },
  {
    method: 'GET',
    path: '/api/outputs',
    auth: 'token',
    run: ({ context }) => ({ ok: true, items: context.outputs?.list() ?? [] }),
  },
  { method: 'POST', path: '/api/outputs', auth: 'token', writes: true, run: setOutput },
  {
    method: 'GET',
    path: '/api/data/devices',
    auth: 'token',
    query: { limit: limit(100), offset },
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.queryDevices(Number(call.query.limit), Number(call.query.offset)))),
    }),
  },
  {
    method: 'GET',
    path: '/api/data/packets',
    auth: 'token',
    query: { device_id: text, status: text, since: seconds, until: seconds, limit: limit(50), offset },
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.queryPackets({ ...call.query } as unknown as PacketQuery))),
    }),
  },
  { method: 'GET', path: '/api/data/packets/:uuid', auth: 'token', run: packet },
  {
    method: 'GET',
    path: '/api/data/sensors',
    auth: 'token',
    query: { device_id: text, sensor_id: text, since: seconds, until: seconds, limit: limit(50), offset },
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.querySensors({ ...call.query } as unknown as SensorQuery))),
    }),
  },
]
