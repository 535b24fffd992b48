// Who may run which command over HTTP: an operator what only reads and what switches media, an admin everything. A command that
// is not listed here is for admins, so a new one is closed until somebody thought about it.
import type { Role } from '../services/users'
import { holds, type OptionValues, type Verb } from './verb'

const OPERATOR: ReadonlySet<string> = new Set([
  'status',
  'id-info',
  'snapshot',
  'pipeline-info',
  'db-status',
  'watch',
  'doctor',
  'completion',
  'decode',
  'inject',
  'config-get',
  'config-show',
  'source list',
  'source test',
  'gpio list',
  'board show',
  'log verify',
  'log export',
  'plugin-list',
  'tui render',
  'tui sections',
  // what switches media
  'transport-status',
  'transporter-toggle',
  'reload-protocol',
])

/** Commands of plugins: some only look, and say so of a call. */
const BY_CALL: ReadonlySet<string> = new Set(['plugin-cmd', 'web-user', 'port-forwarder', 'env-guard', 'deps'])

export function roleOf(verb: Verb, options: OptionValues): Role {
  if (OPERATOR.has(verb.name)) return 'operator'
  return BY_CALL.has(verb.name) && !holds(verb.changes, options) ? 'operator' : 'admin'
}
