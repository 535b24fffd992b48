// Who may run which command over HTTP: an operator what only reads, and what switches media and plugins; an admin everything.
// A command that is not listed here is for admins, so a new one is closed until its role is decided.
import type { Role } from '../services/users'
import { type AnyVerb, holds, type OptionValues } from './verb'

const OPERATOR: ReadonlySet<string> = new Set([
  'status',
  'id-info',
  'snapshot',
  'pipeline-info',
  'db-status',
  'watch',
  'doctor',
  'decode',
  'inject',
  'config-get',
  'config-show',
  'source list',
  'source test',
  'gpio',
  'board',
  'log verify',
  'log export',
  'plugin-list',
  'tui render',
  'tui sections',
  'plugin-load',
  // what switches media
  'transport-status',
  'transporter-toggle',
  'reload-protocol',
])

/** Commands that look or change, and say so of a call. */
const BY_CALL: ReadonlySet<string> = new Set([
  'core',
  'log-level',
  'safe-mode',
  'plugin-cmd',
  'web-user',
  'port-forwarder',
  'env-guard',
  'deps',
])

/** Every command named here. */
export const LISTED: readonly string[] = [...OPERATOR, ...BY_CALL]

export function roleOf(verb: AnyVerb, options: OptionValues): Role {
  if (OPERATOR.has(verb.name)) return 'operator'
  return BY_CALL.has(verb.name) && !holds(verb.changes, options) ? 'operator' : 'admin'
}
