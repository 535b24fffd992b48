// The plugin web_user (specification, "Web service object"): starts and stops the HTTP service, returns its display data, and
// manages its users. The service itself is passed in, since it is in a higher layer.
//
// Errors: without an HTTP service or a display, the call is UNSUPPORTED; a port in use is PORT_BUSY.
import { counted } from '../../lib/counted'
import { OsError } from '../../lib/errors'
import { duration } from '../../units/display'
import type {
  CliHandler,
  DisplayAccess,
  OptionSpec,
  OptionValues,
  PluginDefinition,
  PluginHost,
  Service,
  WebService,
  WebState,
} from '../contract'
import { ROLES, type Role, type UserChange } from '../users'

export interface WebUserStatus extends WebState {
  readonly users: number
  readonly data_file: string
}

const PLACE: Record<string, OptionSpec> = {
  host: { type: 'string', value: 'HOST', help: 'address to listen on (else as configured)' },
  port: { type: 'integer', value: 'N', min: 0, max: 65535, help: 'port to listen on (else as configured)' },
}
const USERNAME: OptionSpec = { type: 'string', value: 'NAME', required: true, help: 'name of the user' }
const USER: Record<string, OptionSpec> = {
  username: USERNAME,
  password: {
    type: 'string',
    value: 'TEXT',
    help: 'password, visible to other users of this machine; without one the user cannot sign in',
  },
  'password-stdin': { type: 'boolean', help: 'prompt for the password, or read it from stdin' },
  role: { type: 'string', value: 'ROLE', choices: ROLES, help: 'what the user may do' },
  enable: { type: 'boolean', help: 'allow sign-in' },
  disable: { type: 'boolean', help: 'deny sign-in' },
}

export class WebUserService implements Service {
  readonly #host: PluginHost

  constructor(host: PluginHost) {
    this.#host = host
  }

  /** True if it listens there now. Throws UNSUPPORTED, PORT_BUSY, NETWORK, LOCKED. */
  async start(host: string | null = null, port: number | null = null): Promise<boolean> {
    await this.#web.start(host, port)
    return this.#web.state().running
  }

  /** False if it did not run. */
  async stop(): Promise<boolean> {
    return (await this.#host.web?.stop()) ?? false
  }

  status(): WebUserStatus {
    const { users } = this.#web
    const { running, host, port, url, uptime_s } = this.#web.state()
    return { running, users: users.list().length, data_file: users.path, uptime_s, host, port, url }
  }

  /** The response of GET /api/dashboard; `sections`: only these. */
  buildDashboard(sections?: readonly string[]): Promise<Record<string, unknown>> {
    return this.#web.dashboard(sections)
  }

  getDisplayProvidersMetadata(): Record<string, unknown> {
    return this.#display.metadata()
  }

  /** One section; throws NOT_FOUND, BAD_REQUEST. */
  async renderDisplaySection(section: string, format = 'json'): Promise<unknown> {
    return this.#display.renderSection(section, format)
  }

  async collectAllDisplaySections(format = 'json'): Promise<Record<string, unknown>> {
    return this.#display.collectAllSections(format)
  }

  getCliCommands(): Record<string, CliHandler> {
    return {
      start: {
        summary: 'start the HTTP service',
        example: '--host 127.0.0.1 --port 8765 --block',
        options: { ...PLACE, block: { type: 'boolean', help: 'stay until it is stopped' } },
        run: async ({ host, port, block }, { signal, print }) => {
          const started = await this.#web.start((host as string) ?? null, (port as number) ?? null)
          const status = this.status()
          const value = { ok: status.running, started, ...status }
          const text = `web page on ${status.url ?? 'nothing'}${started ? '' : ' (already running)'}`
          const { ended } = this.#web
          const stays = ended !== undefined && (block === true || !this.#host.gateway)
          if (!stays) return { value, text, exitCode: status.running ? 0 : 1 }
          // in a gateway the caller is another process: the message is sent as a row
          if (this.#host.gateway) return { rows: until(value, ended.call(this.#web, signal)) }
          print(text)
          return { exitCode: await ended.call(this.#web, signal) }
        },
      },
      stop: {
        summary: 'stop the HTTP service',
        run: async () => {
          const stopped = await this.stop()
          return { value: { ok: true, stopped }, text: stopped ? 'stopped' : 'it was not running' }
        },
      },
      status: {
        summary: 'show state, address and number of users',
        reads: true,
        run: () => {
          const value = this.status()
          const { running, url, uptime_s, users, data_file } = value
          const head = running ? `${url ?? 'running'}, for ${duration(uptime_s)}` : 'not running'
          return { value: { ...value }, text: `${head}\n${counted(users, 'user')} in ${data_file}` }
        },
      },
      dashboard: {
        summary: 'print the dashboard as JSON',
        reads: true,
        options: { sections: { type: 'string', value: 'A,B', help: 'these sections only' } },
        run: async ({ sections }) => {
          const wanted = typeof sections === 'string' ? sections.split(',').map(name => name.trim()) : undefined
          return { value: { ok: true, dashboard: await this.buildDashboard(wanted) } }
        },
      },
      list: {
        summary: 'list users',
        reads: true,
        run: () => {
          const users = this.#web.users.list()
          const lines = users.map(({ username, role, enabled }) => `${username}  ${role}${enabled ? '' : '  disabled'}`)
          return { value: { ok: true, users }, text: lines.join('\n') || 'no users' }
        },
      },
      add: {
        summary: 'add a user',
        example: 'bob --role operator --password-stdin',
        options: { ...USER, role: { ...USER.role!, default: 'viewer' } },
        operands: ['username'],
        run: async options => {
          const user = await this.#web.users.add({ username: String(options.username), ...changeOf(options) })
          return { value: { ok: true, user }, text: `added ${options.username}` }
        },
      },
      update: {
        summary: 'change role, password or state of a user',
        example: 'bob --disable',
        options: USER,
        operands: ['username'],
        run: async options => {
          const change = changeOf(options)
          if (Object.keys(change).length === 0)
            throw new OsError(
              'USAGE',
              'nothing to change: give --password-stdin, --password, --role, --enable or --disable',
            )
          const user = await this.#web.users.update(String(options.username), change)
          return { value: { ok: true, user }, text: `changed ${options.username}` }
        },
      },
      delete: {
        summary: 'delete a user',
        example: 'bob',
        options: { username: USERNAME },
        operands: ['username'],
        run: async ({ username }) => {
          await this.#web.users.remove(String(username))
          return { value: { ok: true, username }, text: `deleted ${username}` }
        },
      },
    }
  }

  get #web(): WebService {
    const { web } = this.#host
    if (!web) throw new OsError('UNSUPPORTED', 'no HTTP service here', { hint: 'start one with os-node run' })
    return web
  }

  get #display(): DisplayAccess {
    const { display } = this.#host
    if (!display) throw new OsError('UNSUPPORTED', 'no display here', { hint: 'start a gateway with os-node run' })
    return display
  }
}

/** Yields the value immediately, and the end when it has settled. */
async function* until(value: unknown, end: Promise<unknown>): AsyncGenerator<unknown> {
  yield value
  await end
}

function changeOf({ password, role, enable, disable, ...others }: OptionValues): UserChange {
  // the command line has already replaced it with the password; other callers have no stdin
  if (others['password-stdin']) throw new OsError('USAGE', '--password-stdin works on a command line only')
  if (enable && disable) throw new OsError('USAGE', 'either --enable or --disable')
  return {
    ...(typeof password === 'string' && { password }),
    ...(role !== undefined && { role: role as Role }),
    ...((enable || disable) && { enabled: enable === true }),
  }
}

export const webUserPlugin: PluginDefinition = {
  name: 'web_user',
  create: host => new WebUserService(host),
}
