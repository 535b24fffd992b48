// The HTTP service (decision 0050): who may write, and where it listens.
import * as v from 'valibot'
import { atStart, flag, int, list, map, port, section, text } from '../fields'

/** Keys that may be written over HTTP by default. */
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
    auth_enabled: flag(true, 'require the admin token; off: listen on the loopback only', atStart),
    read_only: flag(false, 'refuse every write over HTTP'),
    management_enabled: flag(true, 'answer over HTTP; off: only the page, health, users and /api/data'),
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
    redirect_port: port(0, 'port that answers /health and redirects to the encrypted page; 0: none', atStart),
    allowed_hosts: list(v.string(), 'further host names of this gateway, against DNS rebinding', atStart),
    session_idle_seconds: int(1800, 'a session ends after this long without use', { min: 60, max: 86_400 }),
    session_max_seconds: int(43_200, 'a session ends after this long', { min: 300, max: 2_592_000 }),
    ui: section({
      ui_enabled: flag(true, 'show the page; off: only the API'),
      ui_theme: text('auto', 'theme of the page: auto, light or dark'),
      ui_layout: text('cards', 'arrangement of the page'),
      ui_refresh_seconds: int(5, 'refresh interval of data that is not pushed', { min: 1, max: 3600 }),
      ui_compact: flag(false, 'compact layout'),
      expose_sections: list(v.string(), 'parts of the dashboard the page shows; empty: all'),
    }),
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
