// Configuration: single values, complete sections, options for a form, and the page's own settings. Secrets are masked;
// a masked value in a write changes nothing (X19). Sections are written all or nothing (X20), options one by one.

import * as v from 'valibot'
import { OsError } from '../../lib/errors'
import { isObject } from '../../lib/objects'
import type { Body } from '../body'
import { flag, text } from '../query'
import { type Call, type Route, route } from '../route'
import * as s from '../schemas'
import { optionList, optionSchema } from '../web-options'

/** path segments that no configuration key has, and that must not be followed in an object (S8) */
const UNSAFE_SEGMENT = /(^|\.)(__proto__|prototype|constructor)(\.|$)/

function show({ context, query }: Call): object {
  const { key } = query as { key?: string }
  if (key === undefined) return { ok: true, config: context.config.get() }
  if (UNSAFE_SEGMENT.test(key) || !context.config.has(key)) {
    throw new OsError('CONFIG_KEY', 'key not found', { details: { key } })
  }
  return { ok: true, key, value: context.config.get(key) }
}

/** The answer of a change, with the new warnings it caused. */
const advised =
  <Body>(run: (call: Call<Body>) => Promise<object>) =>
  async (call: Call<Body>): Promise<object> => {
    const { config } = call.context
    const before = config.advice?.()
    const answer = await run(call)
    const warnings = config.advice?.().filter(text => !before!.includes(text)) ?? []
    return { ...answer, ...(warnings.length > 0 && { warnings }) }
  }

/** `{key, value, value_type}` is one value, everything else is sections. */
async function write({ context, body }: Call<Record<string, unknown>>): Promise<object> {
  const { key, value, value_type } = body
  if (typeof key === 'string' && Object.hasOwn(body, 'value')) {
    if (value_type !== undefined && typeof value_type !== 'string')
      throw new OsError('BAD_REQUEST', 'value_type must be a text', { details: { key: 'value_type' } })
    return { ok: true, ...(await context.config.set(key, value, value_type)) }
  }
  if (Object.keys(body).length === 0)
    throw new OsError('BAD_REQUEST', 'sections to change, or key and value, are required')
  return { ok: true, changed: await context.config.update(body) }
}

const update = v.looseObject({ key: v.string(), value: s.anything, value_type: v.optional(v.string()) })

const warnings = v.optional(v.array(s.text))

/** any object: the configuration checks its keys and types */
const sections = v.record(v.string(), v.unknown())

/** Dotted keys in the body of PUT /api/config. */
function keysIn(body: Body): string[] {
  if (typeof body.key === 'string' && Object.hasOwn(body, 'value')) return [body.key]
  const found: string[] = []
  const walk = (value: unknown, path: string): void => {
    if (found.length > 1000) return
    const inner = isObject(value) && path.split('.').length < 8
    if (inner) for (const [name, item] of Object.entries(value)) walk(item, path === '' ? name : `${path}.${name}`)
    else found.push(path)
  }
  walk(body, '')
  return found
}

const updatedKeys = ({ updates }: Body): string[] =>
  (updates as { key?: unknown }[]).flatMap(item => (typeof item?.key === 'string' ? [item.key] : []))

const isUpdate = (item: unknown): item is v.InferOutput<typeof update> => v.is(update, item) && item.key !== ''

/** Each update separately: valid ones are written, the others are reported. */
async function options({ context, body }: Call<{ updates: unknown[] }>): Promise<object> {
  const changed: object[] = []
  const failed: object[] = []
  const outcomes = (await context.config.setAll(body.updates.filter(isUpdate))).values()
  for (const item of body.updates) {
    if (!isUpdate(item)) {
      failed.push({ item, error: 'an update is {key, value, value_type}', code: 'BAD_REQUEST' })
      continue
    }
    const { key } = item
    const outcome = outcomes.next().value!
    if (outcome instanceof OsError) failed.push({ key, error: outcome.message, code: outcome.code })
    else changed.push({ key, new: outcome.new, restart: outcome.restart })
  }
  return { ok: failed.length === 0, changed, failed }
}

const UI = ['ui_enabled', 'ui_theme', 'ui_layout', 'ui_refresh_seconds', 'ui_compact', 'expose_sections'] as const

const ui = v.looseObject({
  ui_enabled: s.flag,
  ui_theme: s.text,
  ui_layout: s.text,
  ui_refresh_seconds: v.pipe(s.whole, v.minValue(1)),
  ui_compact: s.flag,
  expose_sections: s.texts,
})

function uiConfig({ context }: Pick<Call, 'context'>): object {
  const stored = context.config.get('web_user.ui') as Record<string, unknown>
  return { ok: true, ui: Object.fromEntries(UI.map(name => [name, stored[name]])) }
}

export const CONFIG: readonly Route[] = [
  route('GET /api/config', {
    role: 'viewer',
    summary: 'the complete configuration, or one value by its dotted key',
    query: { key: text },
    answer: v.union([s.answer({ config: s.open }), s.answer({ key: s.text, value: s.anything })]),
    run: show,
  }),
  route('PUT /api/config', {
    role: 'admin',
    write: 'keys',
    summary: 'changes nested sections, all or nothing, or one value as {key, value, value_type}',
    keys: keysIn,
    body: v.union([update, sections]),
    answer: v.union([
      s.answer({ changed: v.array(v.strictObject(s.change)), warnings }),
      s.answer({ ...s.change, warnings }),
    ]),
    run: advised(write),
  }),
  route('GET /api/options', {
    role: 'viewer',
    summary: 'every option with its value',
    answer: s.answer({
      options: v.array(v.strictObject({ key: s.text, value: s.anything, value_type: s.text, writable: s.flag })),
    }),
    run: ({ context }) => ({ ok: true, options: optionList(context.config) }),
  }),
  route('GET /api/options/schema', {
    role: 'viewer',
    summary: 'options by category, with allowed values',
    query: { only_writable: flag },
    answer: s.answer({
      schema: v.strictObject({
        generated_at: s.seconds,
        categories: v.array(
          v.strictObject({
            id: s.text,
            title: s.text,
            count: s.whole,
            fields: v.array(v.looseObject({ key: s.text })),
          }),
        ),
        writable_prefixes: s.texts,
      }),
    }),
    run: ({ context, query, service }) => ({
      ok: true,
      schema: optionSchema(context.config, query.only_writable === true, service.now),
    }),
  }),
  route('PUT /api/options', {
    role: 'admin',
    write: 'keys',
    summary: 'changes options one by one and reports failures',
    keys: updatedKeys,
    body: v.object({
      updates: v.pipe(
        v.array(v.union([update, v.unknown()]), 'updates must be a list'),
        v.maxLength(1000, 'at most 1000 updates'),
      ),
    }),
    answer: v.strictObject({ ok: s.flag, changed: v.array(s.open), failed: v.array(s.open), warnings }),
    run: advised(options),
  }),
  route('GET /api/ui/config', {
    role: 'viewer',
    summary: 'settings of the page',
    answer: s.answer({ ui }),
    run: uiConfig,
  }),
  route('PUT /api/ui/config', {
    role: 'admin',
    write: 'keys',
    summary: 'changes settings of the page',
    keys: body => Object.keys(body),
    body: sections,
    answer: s.answer({ ui }),
    run: async ({ context, body }) => {
      if (Object.keys(body).length > 0) await context.config.update({ web_user: { ui: body } })
      return uiConfig({ context })
    },
  }),
  route('POST /api/reload', {
    role: 'admin',
    write: 'state',
    summary: 'reads Config.json again',
    answer: v.looseObject({ ok: s.ok }),
    run: async ({ context }) => ({ ok: true, ...(await context.reload()) }),
  }),
]
