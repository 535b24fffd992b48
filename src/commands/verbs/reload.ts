// reload: the running gateway reads Config.json again, as after SIGHUP. A broken or invalid file is reported with
// position and reason (exit 3) and changes nothing.
import type { ReloadReport } from '../../gateway/guard/reload'
import type { Verb } from '../verb'

const WORDS = ['added', 'removed', 'changed', 'kept'] as const

export const reload: Verb<ReloadReport> = {
  name: 'reload',
  summary: 'reload the configuration of the running gateway',
  description: 'Links that did not change stay open, and so does the log. The signal SIGHUP does the same.',
  examples: ['os-node reload', 'os-node reload --json'],
  where: 'gateway',
  async run({ gateway }) {
    return { value: { ...(await gateway!.reload()) } }
  },
  text({ changed, links, needs_restart }, paint) {
    const lines = [changed.length > 0 ? `changed: ${changed.join(', ')}` : 'nothing changed in the file']
    for (const [kind, applied] of Object.entries(links)) {
      const said = WORDS.filter(what => applied[what].length > 0).map(what => `${what} ${applied[what].join(', ')}`)
      if (said.length > 0) lines.push(`${kind}: ${said.join('; ')}`)
    }
    if (needs_restart.length > 0) lines.push(paint.warn(`effective at the next start: ${needs_restart.join(', ')}`))
    return lines.join('\n')
  },
}
