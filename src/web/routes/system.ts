// Health, metrics, the log, the description of the API, safe mode (R25), live events.
import * as v from 'valibot'
import { OsError } from '../../lib/errors'
import type { WebContext } from '../context'
import { units } from '../display-units'
import { metricsText } from '../metrics'
import { limit, text } from '../query'
import { type Route, route, Text } from '../route'
import * as s from '../schemas'

const safeMode = { active: s.flag, reason: s.maybeText, crashes: s.whole }

function safeModeOf({ safeMode }: WebContext): NonNullable<WebContext['safeMode']> {
  if (!safeMode) throw new OsError('FORBIDDEN', 'there is no safe mode here')
  return safeMode
}

const health = ({ context }: { context: WebContext }): object => {
  const reason = context.trouble?.()
  return { ok: true, service: 'web_user', ...(reason !== undefined && { state: 'degraded', reason }) }
}

const healthRoute = (path: string): Route =>
  route({ method: 'GET', path, role: 'open', summary: 'the service answers', answer: s.health, run: health })

export const SYSTEM: readonly Route[] = [
  healthRoute('/health'),
  healthRoute('/api/health'),
  route({
    method: 'GET',
    path: '/metrics',
    role: 'viewer',
    summary: 'counters and states as Prometheus text',
    run: call => new Text('text/plain; version=0.0.4; charset=utf-8', metricsText(call)),
  }),
  route({
    method: 'GET',
    path: '/api/openapi.json',
    role: 'viewer',
    summary: 'this API as OpenAPI 3.1, from the schemas that check requests',
    answer: v.looseObject({ openapi: s.text, paths: s.open }),
    // loaded at the first request: most gateways have none
    run: async ({ context, routes }) => (await import('../openapi')).openApi(routes, context.version),
  }),
  route({
    method: 'GET',
    path: '/api/log',
    role: 'viewer',
    summary: 'the newest lines of the log, oldest first',
    query: { lines: limit(200, 1000) },
    answer: s.answer({
      lines: v.array(v.strictObject({ at: s.whole, level: s.text, scope: s.text, text: s.text, repeats: s.whole })),
    }),
    run: ({ context, query }) => ({ ok: true, lines: (context.log?.() ?? []).slice(-Number(query.lines)) }),
  }),
  route({
    method: 'GET',
    path: '/api/safe-mode',
    role: 'viewer',
    summary: 'whether crashes in a row led to safe mode, and why',
    answer: s.answer(safeMode),
    run: async ({ context }) => ({ ok: true, ...(await safeModeOf(context)(false)) }),
  }),
  route({
    method: 'POST',
    path: '/api/safe-mode',
    role: 'admin',
    write: 'state',
    summary: 'leaves safe mode: the links open at once, crashes are counted anew',
    body: v.object({ leave: v.literal(true, 'leave must be true') }),
    answer: s.answer(safeMode),
    run: async ({ context }) => ({ ok: true, ...(await safeModeOf(context)(true)) }),
  }),
  {
    method: 'GET',
    path: '/api/events',
    role: 'viewer',
    summary: 'what happens, as server-sent events: reading, link, job',
    query: { kinds: text, units },
    run: () => {
      throw new OsError('INTERNAL', 'a stream has no body')
    },
    stream: (call, res, streams) => streams.open(call, res),
  },
]
