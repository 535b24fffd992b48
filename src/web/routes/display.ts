// Sections of the display providers (X31).
import * as v from 'valibot'
import { DISPLAY_FORMATS } from '../../display'
import { OsError } from '../../lib/errors'
import { choice, text } from '../query'
import { type Call, type Route, route } from '../route'
import * as s from '../schemas'

const format = choice(DISPLAY_FORMATS, 'json')

async function render({ context, params, query }: Call): Promise<object> {
  const section = params.section ?? ''
  if (section.trim() === '') throw new OsError('BAD_REQUEST', 'section is required')
  // the registry also finds built-in sections by their bare id; an HTTP path has both names
  if (!section.includes(':')) throw new OsError('NOT_FOUND', 'section not found', { details: { section } })
  return { ok: true, ...(await context.display.render(section, query.format)) }
}

export const DISPLAY: readonly Route[] = [
  route('GET /api/display/providers', {
    role: 'viewer',
    summary: 'every section that can be rendered',
    answer: s.answer({
      metadata: v.looseObject({ total_providers: s.whole, categories: s.anything, providers: v.array(s.open) }),
    }),
    run: ({ context }) => ({ ok: true, metadata: context.display.metadata() }),
  }),
  route('GET /api/display/render/:section', {
    role: 'viewer',
    summary: 'one section, named PLUGIN:SECTION',
    query: { format },
    answer: s.answer({
      section: s.text,
      format: s.text,
      resolved_format: s.text,
      render_mode: s.text,
      data: s.anything,
    }),
    run: render,
  }),
  route('GET /api/display/all', {
    role: 'viewer',
    summary: 'all sections by PLUGIN:SECTION, the most important first',
    query: { format, category: text, min_priority: { type: 'integer', min: 0, max: 100 } },
    answer: s.answer({ format: s.text, sections: s.open, timestamp: s.seconds }),
    run: async ({ context, query, service }) => ({
      ok: true,
      format: query.format,
      sections: await context.display.collect(query.format, {
        ...(query.category !== undefined && { category: String(query.category) }),
        ...(query.min_priority !== undefined && { minPriority: Number(query.min_priority) }),
      }),
      timestamp: Math.floor(service.now / 1000),
    }),
  }),
]
