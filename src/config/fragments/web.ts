// The HTTP service (DESIGN D13): who may write what, and where it listens.
import * as v from 'valibot'
import { anything, flag, map, port, section, text } from '../fields'

const atStart = { restart: true }

/** Keys that may be written over HTTP unless the owner says otherwise. */
export const WRITABLE_PREFIXES: readonly string[] = [
  'engine_settings',
  'gateway',
  'RESOURCES.application_status',
  'RESOURCES.transport_status',
  'RESOURCES.physical_status',
  'security_settings.id_lease',
  'web_user.ui',
]

export const webEntries = {
  web_user: section({
    auth_enabled: flag(true, 'ask for the admin token; off: listen on the loopback only', atStart),
    read_only: flag(false, 'refuse every write over HTTP'),
    writable_config_prefixes: v.optional(
      v.pipe(v.array(v.string()), v.metadata({ help: 'keys that may be written over HTTP, with all below them' })),
      [...WRITABLE_PREFIXES],
    ),
    tls: v.optional(
      v.pipe(
        v.union([
          v.picklist(['off', 'self_signed']),
          v.strictObject({
            cert: v.pipe(v.string(), v.metadata({ help: 'file of the certificate' })),
            key: v.pipe(v.string(), v.metadata({ help: 'file of its private key' })),
          }),
        ]),
        v.metadata({ help: 'encryption: off, self_signed, or the paths of certificate and key', restart: true }),
      ),
      'off',
    ),
    ui: section({ ui_theme: anything('looks of the page'), ui_refresh_seconds: anything('pause between updates') }),
  }),
}

export const pluginEntries = {
  service_plugins: map(
    {
      web_user: section({
        host: text('127.0.0.1', 'address the HTTP service listens on', atStart),
        port: port(8765, 'port the HTTP service listens on', atStart),
      }),
    },
    v.looseObject({}),
    'settings of each service plugin',
  ),
}
