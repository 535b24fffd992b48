// Roles for commands over HTTP: an operator may run commands that only read, and those that switch media and plugins;
// an admin may run everything. A command that is not listed is for admins, so a new one is restricted until its role is
// decided.
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
  // commands that switch media
  'transport-status',
  'transporter-toggle',
  'reload-protocol',
])

/** Commands that read or change, depending on the call. */
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
