// Health, metrics, the log, the description of the API, safe mode (R25), live events.
import * as v from 'valibot'
import { SHORTEST } from '../../commands/verbs/backup'
import { OsError } from '../../lib/errors'
import { requireRole } from '../access'
import type { WebContext } from '../context'
import { units } from '../display-units'
import { metricsText } from '../metrics'
import { limit, text } from '../query'
import { Download, type Route, route, Text } from '../route'
import * as s from '../schemas'

const safeMode = { active: s.flag, reason: s.maybeText, crashes: s.whole }

function safeModeOf({ safeMode }: WebContext): NonNullable<WebContext['safeMode']> {
  if (!safeMode) throw new OsError('FORBIDDEN', 'there is no safe mode here')
  return safeMode
}

function updateOf({ update }: WebContext): NonNullable<WebContext['update']> {
  if (!update) throw new OsError('NO_SLOTS', 'this system has no slots')
  return update
}

function restoreOf({ restore }: WebContext): NonNullable<WebContext['restore']> {
  if (!restore) throw new OsError('E_BACKUP', 'there is nothing to restore here')
  return restore
}

const passphrase = v.optional(
  v.pipe(
    v.string('passphrase must be a text'),
    v.minLength(SHORTEST, `passphrase must have ${SHORTEST} characters at least`),
  ),
)

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
    // loaded at the first request, which most gateways never get
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
    summary: 'leaves safe mode: the links open, the crash count restarts',
    body: v.object({ leave: v.literal(true, 'leave must be true') }),
    answer: s.answer(safeMode),
    run: async ({ context }) => ({ ok: true, ...(await safeModeOf(context)(true)) }),
  }),
  route({
    method: 'GET',
    path: '/api/update',
    role: 'viewer',
    summary: 'versions of the SD image, and the last update',
    answer: v.looseObject({ ok: v.literal(true), board: s.text, slots: v.array(s.open) }),
    run: ({ context }) => updateOf(context).show(),
  }),
  route({
    method: 'POST',
    path: '/api/update',
    role: 'admin',
    write: 'state',
    summary: 'installs a signed update from an address; the board starts again and tries it',
    body: v.object({
      source: v.pipe(v.string(), v.regex(/^https?:\/\/[\x21-\x7e]{1,2000}$/, 'source must be an http or https URL')),
    }),
    answer: s.answer({}),
    run: ({ context, body }) => {
      updateOf(context).request(body.source)
      return { ok: true }
    },
  }),
  route({
    method: 'POST',
    path: '/api/backup',
    role: 'operator',
    file: true,
    summary: 'a backup, as os-node backup writes it; with a passphrase (admins) including secrets',
    body: v.object({ passphrase }),
    run: ({ context: { backup, config, logger }, body: { passphrase }, session, remote }) => {
      if (!backup) throw new OsError('E_BACKUP', 'there is nothing to back up here')
      if (passphrase !== undefined) requireRole(session, 'admin')
      logger.info(`${session.username} at ${remote}: backup with${passphrase === undefined ? 'out' : ''} secrets`)
      const name = String(config.get('device_id')).replace(/[^\w.-]+/g, '_') || 'os-node'
      return new Download(`${name}.backup`, sink => backup(passphrase, sink))
    },
  }),
  route({
    method: 'PUT',
    path: '/api/restore',
    role: 'admin',
    write: 'state',
    audited: true,
    summary: 'a piece of a backup, base64, at its offset; 0 starts again',
    body: v.object({
      offset: v.pipe(v.number(), v.integer(), v.minValue(0)),
      data: v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/]+={0,2}$/, 'data must be base64')),
    }),
    answer: s.answer({ size: s.whole }),
    run: ({ context, body: { offset, data } }) => ({
      ok: true,
      size: restoreOf(context).piece(offset, Buffer.from(data, 'base64')),
    }),
  }),
  route({
    method: 'POST',
    path: '/api/restore',
    role: 'admin',
    write: 'state',
    summary: 'checks the uploaded backup, then the gateway stops; its next start has the state of the backup',
    body: v.object({ size: v.pipe(v.number(), v.integer(), v.minValue(1)), passphrase }),
    answer: v.looseObject({ ok: v.literal(true), device_id: s.text, secrets_restored: s.flag }),
    run: async ({ context, body }) => ({ ok: true, ...(await restoreOf(context).start(body.size, body.passphrase)) }),
  }),
  {
    method: 'GET',
    path: '/api/events',
    role: 'viewer',
    summary: 'server-sent events: reading, link, job',
    query: { kinds: text, units },
    run: () => {
      throw new OsError('INTERNAL', 'a stream has no body')
    },
    stream: (call, res, streams) => streams.open(call, res),
  },
]
