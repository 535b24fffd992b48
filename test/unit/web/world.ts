// A complete server that needs no gateway: a real configuration, real users, commands, sections and events.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { VERBS } from '../../../src/commands'
import { JobRunner, type JobRunnerOptions } from '../../../src/commands/jobs'
import { ConfigStore } from '../../../src/config'
import { DisplayProvider, DisplayRegistry } from '../../../src/display'
import type { LinkEvent } from '../../../src/gateway/events'
import { OsError } from '../../../src/lib/errors'
import { createLogger, type Logger } from '../../../src/lib/logger'
import { type Role, UserStore } from '../../../src/services/users'
import type { LatestReading, PluginsControl, WebContext } from '../../../src/web/context'
import { webConfig } from '../../../src/web/from-gateway'
import type { WebServer, WebServerOptions } from '../../../src/web/server'
import { fake } from '../commands/fake'
import { type Answer, ask, FakeDb, fakeContext, serve, UUID } from './helper'

/** rows as the database returns them */
const PACKET = {
  packet_uuid: UUID,
  device_id: 'pi-shed',
  device_status: 'ONLINE',
  timestamp_raw: 1_710_000_000,
  payload_json: { id: 'pi-shed', s: 'ONLINE' },
  created_at: 1_710_000_001,
}
const SENSOR = { sensor_index: 1, sensor_id: 't', sensor_status: 'OK', normalized_value: null, normalized_unit: 'K' }

class FullDb extends FakeDb {
  override queryDevices = async (limit: number, offset: number): Promise<object> => ({
    devices: [{ device_id: 'pi-shed', last_seen: 1_710_000_000, packet_count: 3 }],
    total: 1,
    limit,
    offset,
  })
  override queryPackets = async ({ limit, offset }: { limit: number; offset: number }): Promise<object> => ({
    packets: [PACKET],
    total: 1,
    limit,
    offset,
  })
  override queryPacket = async (uuid: string): Promise<object | null> =>
    uuid === UUID ? { packet: PACKET, sensors: [SENSOR] } : null
  override querySensors = async ({ limit, offset }: { limit: number; offset: number }): Promise<object> => ({
    sensors: [{ packet_uuid: UUID, ...SENSOR, device_id: 'pi-shed', timestamp_raw: 1_710_000_000 }],
    total: 1,
    limit,
    offset,
  })
  override queryHistory = async (): Promise<object> => ({ buckets: [], since: 1, until: 2, units: ['K'] })
}

class Weather extends DisplayProvider {
  override readonly category = 'demo'
  constructor() {
    super('weather', 'now', 'Weather')
    this.priority = 50
  }
  extractData(): object {
    return { sky: '<b>clear</b>', wind: 3 }
  }
}

export interface World {
  server: WebServer
  context: WebContext
  config: ConfigStore
  users: UserStore
  jobs: JobRunner
  dir: string
  logger: Logger
  /** calls to plugins */
  calls: unknown[][]
  reading(reading: LatestReading): void
  link(name: string): void
  /** one request with JSON; `as` is a session or token, false for none */
  send(method: string, path: string, body?: unknown, as?: string | false): Promise<Answer>
  /** a session of a user with this role */
  session(role: Role): Promise<string>
}

export const PASSWORD = 'correct horse battery'

export async function world(
  t: TestContext,
  {
    config: settings = {},
    context: change = {},
    options = {},
    jobs: jobOptions = {},
  }: {
    config?: object
    context?: Partial<WebContext>
    options?: Partial<WebServerOptions>
    jobs?: Partial<JobRunnerOptions>
  } = {},
): Promise<World> {
  const dir = mkdtempSync(join(tmpdir(), 'os-web-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  writeFileSync(join(dir, 'Config.json'), JSON.stringify(settings))
  const config = ConfigStore.load({ path: join(dir, 'Config.json'), dataDir: join(dir, 'data'), env: {} })
  const users = new UserStore({ dataDir: join(dir, 'data') })
  const logger = createLogger({ write: () => undefined })
  const calls: unknown[][] = []
  const prefixes = (): string[] => config.get('web_user.writable_config_prefixes')
  const jobs = new JobRunner({
    verbs: VERBS,
    context: { ...fake(config, { inGateway: true, logger }).context, writable: prefixes },
    logger: logger.child('cli'),
    ...jobOptions,
  })
  const registry = new DisplayRegistry()
  registry.register(new Weather())
  const readings = new Set<(reading: LatestReading) => void>()
  const links = new Set<(event: LinkEvent) => void>()
  const asked = async (plugin: string, ...call: unknown[]): Promise<void> => {
    if (plugin !== 'port_forwarder') throw new OsError('BAD_REQUEST', 'unknown plugin', { details: { plugin } })
    calls.push([...call, plugin])
  }
  const context = fakeContext({
    config: webConfig(config),
    users,
    jobs,
    display: registry,
    db: new FullDb(),
    log: () => logger.recent(),
    logger,
    settings: () => ({ read_only: config.get('web_user.read_only'), management_enabled: true }),
    reload: async () => ({ changed: [], needs_restart: [] }) as never,
    update: {
      show: () => ({ ok: true, board: 'bench', slots: [] }),
      piece: (offset, bytes) => offset + bytes.length,
      request: source => void calls.push(['update', source]),
      loggedIn: () => undefined,
    },
    wifi: { problem: () => undefined, request: wifi => void calls.push(['wifi', wifi]) },
    safeMode: async leave => ({
      active: !leave,
      ...(!leave && { reason: '5 crashes in a row' }),
      crashes: leave ? 0 : 5,
    }),
    media: {
      toggle: async (medium, enabled) => ({ name: medium.toUpperCase(), enabled }),
      reload: async medium => ({ name: medium.toUpperCase(), reloaded: true }),
    },
    outputs: {
      list: () => [{ source: 'shed', name: 'pump', value: 0 }],
      set: async (name, value) => ({ source: 'shed', name, value }),
    },
    plugins: {
      list: () => ({
        plugins: { mount_index: ['port_forwarder'], runtime_index: [], config_index: {} },
        items: [
          {
            name: 'port_forwarder',
            config_prefix: 'RESOURCES.service_plugins.port_forwarder',
            enabled: true,
            mode: 'runtime',
            mounted: true,
            loaded: false,
          },
        ],
      }),
      load: (plugin: string) => asked(plugin, 'load'),
      start: (plugin: string) => asked(plugin, 'start'),
      stop: (plugin: string) => asked(plugin, 'stop'),
      setEnabled: (plugin: string, enabled: boolean) => asked(plugin, 'enabled', enabled),
      command: async (plugin: string, argv: readonly string[]) => {
        calls.push(['command', plugin, ...argv])
        return { exit_code: argv[0] === 'bad' ? 1 : 0, stdout: 'done\n' }
      },
      // fewer fields of each plugin than there are
    } as unknown as PluginsControl,
    events: {
      onReading: listener => {
        readings.add(listener)
        return () => readings.delete(listener)
      },
      onLink: listener => {
        links.add(listener)
        return () => links.delete(listener)
      },
    },
    ...change,
  })
  context.auth = { ...context.auth, stamp: () => 'the first token', ...change.auth }
  const server = await serve(t, context, options)
  t.after(() => jobs.stop())
  const send = (method: string, path: string, body?: unknown, as?: string | false): Promise<Answer> =>
    ask(server, path, {
      method,
      ...(as !== undefined && { token: as }),
      ...(body !== undefined && {
        headers: { 'Content-Type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    })
  return {
    server,
    context,
    config,
    users,
    jobs,
    dir,
    logger,
    calls,
    reading: reading => {
      for (const listener of readings) listener(reading)
    },
    link: name => {
      for (const listener of links) listener({ name } as never)
    },
    send,
    session: async role => {
      if (!users.get(role)) await users.add({ username: role, password: PASSWORD, role })
      const { json } = await send('POST', '/api/login', { username: role, password: PASSWORD }, false)
      return String(json.session)
    },
  }
}

/** An open stream of events; `next` waits for the next one of a kind. */
export interface Events {
  status: number
  type: string
  next(kind: string): Promise<Record<string, unknown>>
  /** kinds that arrived and were not taken by next() */
  untaken(): string[]
  /** resolves at its end; true: the server ended it properly */
  ended: Promise<boolean>
  close(): void
}

export function events(server: WebServer, token: string, query = ''): Promise<Events> {
  return new Promise((resolve, reject) => {
    const request = http.get(
      {
        host: '127.0.0.1',
        port: server.port,
        path: `/api/events${query}`,
        agent: false,
        headers: { 'X-Admin-Token': token },
      },
      response => {
        const seen: { kind: string; data: Record<string, unknown> }[] = []
        let waiting: (() => void)[] = []
        let text = ''
        response.setEncoding('utf8').on('data', chunk => {
          text += chunk
          for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
            const [, kind, data] = /^event: (\w+)\ndata: (.*)$/s.exec(text.slice(0, at)) ?? []
            if (kind && data) seen.push({ kind, data: JSON.parse(data) })
            text = text.slice(at + 2)
          }
          for (const wake of waiting.splice(0)) wake()
        })
        const ended = new Promise<boolean>(done => {
          response.on('close', () => {
            done(response.complete)
            for (const wake of waiting) wake()
            waiting = []
          })
        })
        resolve({
          status: response.statusCode ?? 0,
          type: String(response.headers['content-type']),
          ended,
          close: () => request.destroy(),
          untaken: () => seen.map(event => event.kind),
          next: async kind => {
            for (;;) {
              const at = seen.findIndex(event => event.kind === kind)
              if (at >= 0) return seen.splice(at, 1)[0]!.data
              if (response.destroyed) throw new Error(`the stream ended before a ${kind}`)
              await new Promise<void>(wake => waiting.push(wake))
            }
          },
        })
      },
    )
    request.on('error', reject)
  })
}
