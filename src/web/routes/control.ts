// Switching of media, outputs of sources, and plugins.
import * as v from 'valibot'
import { auditText } from '../../commands/argv'
import { OsError } from '../../lib/errors'
import { normalizePluginName } from '../../services'
import { requireRole } from '../access'
import { type Call, type Route, route } from '../route'
import * as s from '../schemas'

const transportBody = v.object({
  medium: s.needed('medium'),
  enabled: v.optional(v.boolean()),
  reload: v.optional(v.boolean(), false),
})

/** `enabled` switches (a body without both keys switches on); `reload` recreates the medium; both: one after the other. */
async function changeTransport({ context, body }: Call<v.InferOutput<typeof transportBody>>): Promise<object> {
  const { medium, enabled, reload } = body
  const switched = !reload || enabled !== undefined ? await context.media.toggle(medium, enabled !== false) : undefined
  const state = { ok: true, medium: switched?.name, enabled: switched?.enabled }
  if (!reload) return state
  const { name, reloaded } = await context.media.reload(medium)
  return { ...state, ok: reloaded, medium: name, reloaded }
}

const outputBody = v.object({
  name: s.needed('name'),
  value: v.picklist([0, 1], 'value must be 0 or 1'),
})
const output = { source: s.text, name: s.text, value: v.nullable(v.picklist([0, 1])), reason: s.maybeText }

const ACTIONS = ['load', 'start', 'stop', 'cmd', 'set_enabled'] as const

const pluginBody = v.object({
  plugin: s.needed('plugin'),
  action: v.optional(v.picklist(ACTIONS, `action must be one of ${ACTIONS.join(', ')}`), 'load'),
  sub_cmd: v.optional(v.string()),
  args: v.optional(v.union([v.array(v.string()), v.string()], 'args must be a list of texts')),
  enabled: v.optional(v.boolean(), true),
})

/** load, start and stop (except of the page itself) are for operators; saving and running commands only for admins. */
async function changePlugin({
  context: { plugins, logger },
  body,
  session,
  remote,
}: Call<v.InferOutput<typeof pluginBody>>): Promise<object> {
  const { plugin, action, sub_cmd, args = [], enabled } = body
  const done = { ok: true, plugin, action }
  // the page serves everybody: an operator may start it, not stop it
  if (action === 'stop' && normalizePluginName(plugin) === 'web_user') requireRole(session, 'admin')
  const words = typeof args === 'string' ? args.split(/\s+/).filter(Boolean) : args
  logger.info(
    `${session.username} at ${remote}: plugin ${auditText([action, plugin, ...(sub_cmd ? [sub_cmd, ...words] : [])])}`,
  )
  if (action === 'load' || action === 'start' || action === 'stop') {
    await plugins[action](plugin)
    return done
  }
  requireRole(session, 'admin')
  if (action === 'set_enabled') {
    await plugins.setEnabled(plugin, enabled)
    return { ...done, enabled }
  }
  if (!sub_cmd) throw new OsError('BAD_REQUEST', 'sub_cmd is required', { details: { key: 'sub_cmd' } })
  const { exit_code, ...output } = await plugins.command(plugin, [sub_cmd, ...words])
  const ran = { ...done, command: sub_cmd, exit_code, ...output }
  if (exit_code !== 0) throw new OsError('BAD_REQUEST', `${plugin} ${sub_cmd} failed`, { details: ran })
  return ran
}

export const CONTROL: readonly Route[] = [
  route('GET /api/transport', {
    role: 'viewer',
    summary: 'list media with state, driver and links',
    answer: s.transport,
    run: ({ context }) => ({ ok: true, ...context.transport() }),
  }),
  route('POST /api/transport', {
    role: 'operator',
    write: 'keys',
    summary: 'switches a medium on or off, or recreates it',
    keys: ({ medium }) => (typeof medium === 'string' ? [medium] : []),
    body: transportBody,
    answer: v.strictObject({
      ok: s.flag,
      medium: s.text,
      enabled: v.optional(v.boolean()),
      reloaded: v.optional(v.boolean()),
    }),
    run: changeTransport,
  }),
  route('GET /api/outputs', {
    role: 'viewer',
    summary: 'outputs that can be set',
    answer: s.answer({ items: v.array(v.strictObject(output)) }),
    run: ({ context }) => ({ ok: true, items: context.outputs.list() }),
  }),
  route('POST /api/outputs', {
    role: 'admin',
    write: 'state',
    summary: 'sets one output',
    keys: ({ name }) => (typeof name === 'string' ? [name] : []),
    body: outputBody,
    answer: s.answer(output),
    run: async ({ context, body: { name, value } }) => ({ ok: true, ...(await context.outputs.set(name, value)) }),
  }),
  route('GET /api/plugins', {
    role: 'viewer',
    summary: 'service plugins',
    answer: s.answer({
      plugins: v.strictObject({
        mode: s.maybeText,
        mount_index: s.anything,
        runtime_index: s.anything,
        config_index: s.anything,
      }),
      items: v.array(
        v.looseObject({
          name: s.text,
          config_prefix: s.text,
          enabled: s.flag,
          mode: s.text,
          mounted: s.flag,
          loaded: s.flag,
        }),
      ),
    }),
    run: ({ context }) => ({ ok: true, ...context.plugins.list() }),
  }),
  route('POST /api/plugins', {
    role: 'operator',
    write: 'state',
    summary: 'loads, starts or stops a plugin; admins also enable it and run its commands',
    body: pluginBody,
    audited: true,
    answer: v.looseObject({ ok: s.ok, plugin: s.text, action: v.picklist(ACTIONS) }),
    run: changePlugin,
  }),
]
