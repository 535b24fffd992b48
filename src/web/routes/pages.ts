// The page and its files, and the dashboard.
import * as v from 'valibot'
import { ASSETS, PAGE_WITH_SIGN_IN } from '../assets'
import { buildDashboard } from '../dashboard'
import { units, wantsDisplay } from '../display-units'
import { text } from '../query'
import { type Route, route, Text } from '../route'
import * as s from '../schemas'

const UI_OFF = '<h3>web_user UI is disabled by config: ui_enabled=false</h3>'

const page = (path: keyof typeof ASSETS, summary: string): Route =>
  route(`GET ${path}`, {
    role: 'open',
    summary,
    run: ({ context }) => {
      if (path !== '/') return ASSETS[path]
      if (context.config.get('web_user.ui.ui_enabled') === false)
        return new Text('text/html; charset=utf-8', UI_OFF, 403)
      return context.auth.enabled() ? PAGE_WITH_SIGN_IN : ASSETS['/']
    },
  })

export const PAGES: readonly Route[] = [
  page('/', 'the page'),
  page('/app.js', 'its script'),
  page('/app.css', 'its styles'),
  page('/favicon.svg', 'its icon'),
  page('/favicon.ico', 'its icon'),
]

export const DASHBOARD: Route = route('GET /api/dashboard', {
  role: 'viewer',
  summary: 'the dashboard, or its parts in sections=a,b',
  query: { sections: text, units },
  answer: s.answer({
    dashboard: v.looseObject({ service: s.open, timestamp: s.seconds, service_config: s.open }),
  }),
  run: async ({ context, query, service, session }) => ({
    ok: true,
    dashboard: await buildDashboard(context, service, String(query.sections ?? ''), session.role, wantsDisplay(query)),
  }),
})
