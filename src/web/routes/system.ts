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

function updateOf({ update }: WebContext): NonNullable<WebContext['update']> {
  if (!update) throw new OsError('NO_SLOTS', 'this system has no slots')
  return update
}

function wifiOf({ wifi }: WebContext): NonNullable<WebContext['wifi']> {
  if (!wifi) throw new OsError('NO_WIFI_SETTINGS', 'the Wi-Fi of this system is not set here')
  return wifi
}

const passphrase = v.optional(
  v.pipe(
    v.string('passphrase must be a text'),
    v.minLength(SHORTEST, `passphrase must have ${SHORTEST} characters at least`),
  ),
)

const pieceOfFile = v.object({
  offset: v.pipe(v.number(), v.integer(), v.minValue(0)),
  data: v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/]+={0,2}$/, 'data must be base64')),
})
const sizeOfFile = v.pipe(v.number(), v.integer(), v.minValue(1))

const health = ({ context }: { context: WebContext }): object => {
  const reason = context.trouble()
  return { ok: true, service: 'web_user', ...(reason !== undefined && { state: 'degraded', reason }) }
}

const healthRoute = (path: '/health' | '/api/health'): Route =>
  route(`GET ${path}`, { role: 'open', summary: 'the service answers', answer: s.health, run: health })

export const SYSTEM: readonly Route[] = [
  healthRoute('/health'),
  healthRoute('/api/health'),
  route('GET /metrics', {
    role: 'viewer',
    summary: 'counters and states as Prometheus text',
    run: call => new Text('text/plain; version=0.0.4; charset=utf-8', metricsText(call)),
  }),
  route('GET /api/openapi.json', {
    role: 'viewer',
    summary: 'this API as OpenAPI 3.1, from the schemas that check requests',
    answer: v.looseObject({ openapi: s.text, paths: s.open }),
    // loaded at the first request, which most gateways never get
    run: async ({ context, routes }) => (await import('../openapi')).openApi(routes, context.version),
  }),
  route('GET /api/log', {
    role: 'viewer',
    summary: 'the newest lines of the log, oldest first',
    query: { lines: limit(200, 1000) },
    answer: s.answer({
      lines: v.array(v.strictObject({ at: s.whole, level: s.text, scope: s.text, text: s.text, repeats: s.whole })),
    }),
    run: ({ context, query }) => ({ ok: true, lines: context.log().slice(-Number(query.lines)) }),
  }),
  route('GET /api/safe-mode', {
    role: 'viewer',
    summary: 'whether crashes in a row led to safe mode, and why',
    answer: s.answer(safeMode),
    run: async ({ context }) => ({ ok: true, ...(await context.safeMode(false)) }),
  }),
  route('POST /api/safe-mode', {
    role: 'admin',
    write: 'state',
    summary: 'leaves safe mode: the links open, the crash count restarts',
    body: v.object({ leave: v.literal(true, 'leave must be true') }),
    answer: s.answer(safeMode),
    run: async ({ context }) => ({ ok: true, ...(await context.safeMode(true)) }),
  }),
  route('GET /api/update', {
    role: 'viewer',
    summary: 'versions of the SD image, and the last update',
    answer: v.looseObject({ ok: v.literal(true), board: s.text, slots: v.array(s.open) }),
    run: ({ context }) => updateOf(context).show(),
  }),
  route('PUT /api/update', {
    role: 'admin',
    write: 'state',
    audited: true,
    summary: 'a piece of a signed update, base64, at its offset; 0 starts again',
    body: pieceOfFile,
    answer: s.answer({ size: s.whole }),
    run: ({ context, body: { offset, data } }) => ({
      ok: true,
      size: updateOf(context).piece(offset, Buffer.from(data, 'base64')),
    }),
  }),
  route('POST /api/update', {
    role: 'admin',
    write: 'state',
    summary: 'installs a signed update from an address, or the uploaded one; the board restarts and tries it',
    body: v.object({
      source: v.optional(
        v.pipe(v.string(), v.regex(/^https?:\/\/[\x21-\x7e]{1,2000}$/, 'source must be an http or https URL')),
      ),
      size: v.optional(sizeOfFile),
    }),
    answer: s.answer({}),
    run: ({ context, body: { source, size } }) => {
      const update = updateOf(context)
      const what = source ?? size
      if (what === undefined) throw new OsError('BAD_REQUEST', 'source or size is required')
      update.request(what)
      return { ok: true }
    },
  }),
  route('GET /api/wifi', {
    role: 'viewer',
    summary: 'SD image: why the Wi-Fi that was set last could not be stored',
    answer: s.answer({ problem: v.optional(s.text) }),
    run: ({ context }) => {
      const problem = wifiOf(context).problem()
      return { ok: true, ...(problem !== undefined && { problem }) }
    },
  }),
  route('POST /api/wifi', {
    role: 'admin',
    write: 'state',
    summary: 'SD image: stores the Wi-Fi in os-node.conf; the board restarts and joins it',
    body: v.object({
      ssid: v.pipe(
        v.string(),
        v.regex(/^(?=\S)[^\0-\x1f\x7f]{0,31}[^\0-\x20\x7f]$/, 'ssid must be the name of a Wi-Fi'),
        v.maxBytes(32, 'ssid has more than 32 bytes'),
      ),
      password: v.optional(
        v.pipe(
          v.string(),
          v.regex(/^([!-~][ -~]{6,61}[!-~]|[0-9a-fA-F]{64})$/, 'password must have 8 to 63 characters of ASCII'),
        ),
      ),
      country: v.optional(v.pipe(v.string(), v.regex(/^[A-Z]{2}$/, 'country must be two capital letters, as DE'))),
    }),
    answer: s.answer({}),
    run: ({ context, body }) => {
      wifiOf(context).request(body)
      return { ok: true }
    },
  }),
  route('POST /api/backup', {
    role: 'operator',
    file: true,
    summary: 'a backup, as os-node backup writes it; with a passphrase (admins) including secrets',
    body: v.object({ passphrase }),
    run: ({ context: { backup, config, logger }, body: { passphrase }, session, remote }) => {
      if (passphrase !== undefined) requireRole(session, 'admin')
      logger.info(`${session.username} at ${remote}: backup with${passphrase === undefined ? 'out' : ''} secrets`)
      const name = String(config.get('device_id')).replace(/[^\w.-]+/g, '_') || 'os-node'
      return new Download(`${name}.backup`, sink => backup(passphrase, sink))
    },
  }),
  route('PUT /api/restore', {
    role: 'admin',
    write: 'state',
    audited: true,
    summary: 'a piece of a backup, base64, at its offset; 0 starts again',
    body: pieceOfFile,
    answer: s.answer({ size: s.whole }),
    run: ({ context, body: { offset, data } }) => ({
      ok: true,
      size: context.restore.piece(offset, Buffer.from(data, 'base64')),
    }),
  }),
  route('POST /api/restore', {
    role: 'admin',
    write: 'state',
    summary: 'checks the uploaded backup, then the gateway stops; its next start has the state of the backup',
    body: v.object({ size: sizeOfFile, passphrase }),
    answer: v.looseObject({ ok: v.literal(true), device_id: s.text, secrets_restored: s.flag }),
    run: async ({ context, body }) => ({ ok: true, ...(await context.restore.start(body.size, body.passphrase)) }),
  }),
  route('GET /api/events', {
    role: 'viewer',
    summary: 'server-sent events: reading, link, job',
    query: { kinds: text, units },
    stream: true,
    run: () => ({}),
  }),
]
