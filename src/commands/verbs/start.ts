// run and serve: start a gateway in this process that runs until it is stopped. They never run inside a running
// gateway; if one holds the data directory they end with LOCKED and its pid.
import { OsError } from '../../lib/errors'
import type { CommandContext, StartOverrides } from '../context'
import type { OptionValues, Verb, VerbResult } from '../verb'

interface StartOptions {
  host?: string
  port?: number
  'web-port'?: number
}

type Start = Verb<Record<string, unknown>, StartOptions>

const port = (help: string) => ({ type: 'integer', value: 'N', min: 0, max: 65535, help }) as const

/** Warns about configured links that a server ignores, because it only receives. The defaults of `run` are not listed. */
function tellIgnored({ config, logger }: CommandContext): void {
  const { uplinks, sources } = config.config.gateway
  const ignored = Object.entries({ uplinks, sources: sources ?? [] })
    .filter(([, links]) => links.length > 0)
    .map(([list, links]) => `gateway.${list} (${links.map(({ name }) => name).join(', ')})`)
  if (ignored.length > 0) logger.warn(`serve ignores ${ignored.join(' and ')}: os-node run opens them`)
}

async function start(
  context: CommandContext,
  role: 'run' | 'serve',
  options: OptionValues & StartOptions,
  ports: (port: number | undefined) => StartOverrides,
): Promise<VerbResult> {
  const overrides = { ...ports(options.port) }
  if (options.host !== undefined) overrides.host = options.host
  if (options.lan === true) openToLan(context, overrides)
  if (role === 'serve') tellIgnored(context)
  const started = await context.startGateway(role, overrides)
  const banner = started.banner ?? `os-node ${role}: data in ${context.config.dataDir}; stop with Ctrl-C`
  if (banner !== '') context.print({ ok: true, role, data_dir: context.config.dataDir, ...started.info }, banner)
  return { exitCode: await started.done }
}

/** Throws USAGE with --host, CONFIG_INVALID if the page requires no token. */
function openToLan({ config }: CommandContext, overrides: StartOverrides): void {
  if (overrides.host !== undefined)
    throw new OsError('USAGE', '--lan opens the page on all addresses; --host names one', { hint: 'use one of them' })
  if (!config.config.web_user.auth_enabled)
    throw new OsError('CONFIG_INVALID', '--lan: the page would be open to the whole network without a token', {
      hint: 'os-node config-set web_user.auth_enabled true, or start without --lan',
      details: { key: 'web_user.auth_enabled' },
    })
  overrides.host = '0.0.0.0'
  overrides.lan = true
}

export const run: Start = {
  name: 'run',
  summary: 'run the gateway: sources, log, uplinks, web page',
  description:
    'The page listens on this machine only. --lan opens it to the network, encrypted, for everyone with the token; the first\n' +
    'start prints a QR code that logs a phone in.',
  examples: ['os-node run', 'os-node run --lan', 'os-node run --config /etc/os-node/Config.json'],
  options: {
    lan: {
      type: 'boolean',
      help: 'open the page on all addresses, by TLS (self-signed where web_user.tls names no certificate); needs web_user.auth_enabled',
    },
    host: {
      type: 'string',
      value: 'HOST',
      help: 'address of the web page (else RESOURCES.service_plugins.web_user.host)',
    },
    port: port('port of the web page (else RESOURCES.service_plugins.web_user.port)'),
    'web-port': port('same as --port, as in serve'),
  },
  where: 'local',
  starts: true,
  changes: true,
  run: (context, options) =>
    start(context, 'run', options, page => {
      const webPort = options['web-port'] ?? page
      if (page !== undefined && webPort !== page)
        throw new OsError('USAGE', '--port and --web-port of run are both the port of the page', {
          hint: 'use one of them',
        })
      return { ...(webPort !== undefined && { webPort }) }
    }),
}

export const serve: Start = {
  name: 'serve',
  summary: 'run a server: receive packets, assign ids, answer time, store',
  examples: ['os-node serve --port 8080 --web-port 8766', 'os-node serve --data-dir /srv/os-node'],
  options: {
    host: { type: 'string', value: 'HOST', help: 'address packets are received on' },
    port: port('UDP port packets are received on'),
    'web-port': port('port of the web page'),
  },
  where: 'local',
  starts: true,
  changes: true,
  run: (context, options) =>
    start(context, 'serve', options, packets => ({
      ...(packets !== undefined && { port: packets }),
      ...(options['web-port'] !== undefined && { webPort: options['web-port'] }),
    })),
}
