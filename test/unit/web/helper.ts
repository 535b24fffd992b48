// A gateway of plain objects behind a real server on a free port, and raw HTTP requests to it.
import http from 'node:http'
import net from 'node:net'
import type { TestContext } from 'node:test'
import type { JobRunner } from '../../../src/commands/jobs'
import { DisplayRegistry } from '../../../src/display'
import type { GatewayStatus } from '../../../src/gateway/status'
import { OsError } from '../../../src/lib/errors'
import type { UserStore } from '../../../src/services/users'
import type { PluginsControl, Queries, WebContext } from '../../../src/web/context'
import { WebServer, type WebServerOptions } from '../../../src/web/server'

export const TOKEN = 'the-right-token-of-this-test'

/** the fields of a status that the page reads; the gateway has more */
export const status = () =>
  ({
    version: '0.1.0',
    uptime_s: 4000,
    identity: { device_id: 'pi-shed', assigned_id: 42 },
    time: { quality: 'synced', offset_ms: 3 },
    links: { up1: { state: 'up', delivery: 'acked', rx: 12, tx: 34, errors: 0 } },
    log: {
      ...{ first_seq: 1, last_seq: 90, committed_seq: 88, bytes: 5_000_000, max_bytes: 64_000_000 },
      ...{ oldest: 1_709_900_000_500, lost: 0, bytes_written_today: 70_000 },
    },
    flash: {
      device: 'mmcblk0p3',
      bytes_written_today: 9_000_000,
      endurance_bytes: 8e12,
      wear_percent_year: 0.25,
    },
    uplinks: { up1: { cursor: 80, backlog: 10, acked: 79, sent: 3, resent: 1 } },
    storage: { lag_records: 0, missed: 3 },
    dropped: { rows: 0, packets: 0, records: 0 },
  }) as unknown as GatewayStatus

export const UUID = '5f0c2a52-6f0e-8a11-9d52-0b8f6a0c1d2e'

/** records how it was called */
export class FakeDb implements Queries {
  readonly asked: unknown[] = []
  fails: unknown = null

  #answer<T>(how: unknown, body: T): Promise<T> {
    this.asked.push(how)
    return this.fails ? Promise.reject(this.fails) : Promise.resolve(body)
  }
  queryDevices(limit: number, offset: number): Promise<object> {
    return this.#answer({ limit, offset }, { ok: true, devices: [], total: 0, limit, offset })
  }
  queryPackets(query: { limit: number; offset: number }): Promise<object> {
    return this.#answer(query, { ok: true, packets: [], total: 0, limit: query.limit, offset: query.offset })
  }
  queryPacket(uuid: string): Promise<object | null> {
    return this.#answer(uuid, uuid === UUID ? { ok: true, packet: { packet_uuid: UUID }, sensors: [] } : null)
  }
  queryHistory(query: object): Promise<object> {
    return this.#answer(query, { ok: true, buckets: [], since: 0, until: 0, units: [] })
  }
  querySensors(query: { limit: number; offset: number }): Promise<object> {
    return this.#answer(query, { ok: true, sensors: [], total: 0, limit: query.limit, offset: query.offset })
  }
}

export type Fake = { -readonly [K in keyof WebContext]: WebContext[K] } & { authOn: boolean; lines: string[] }

export function fakeContext(change: Partial<WebContext> = {}): Fake {
  const lines: string[] = []
  const say = (level: string) => (text: string) => {
    lines.push(`${level} ${text}`)
  }
  const config: Record<string, unknown> = { 'web_user.auth_enabled': true }
  const fake: Fake = {
    authOn: true,
    lines,
    version: '0.1.0',
    status,
    // what a gateway has, with nothing in it
    trouble: () => undefined,
    settings: () => ({ read_only: false, management_enabled: true }),
    hosts: () => [],
    sessionTimes: () => ({ idleS: 1800, maxS: 43_200 }),
    log: () => [],
    media: {
      toggle: async (medium, enabled) => ({ name: medium, enabled }),
      reload: async medium => ({ name: medium, reloaded: true }),
    },
    outputs: { list: () => [], set: async (name, value) => ({ source: '', name, value }) },
    reload: async () => ({ changed: [], needs_restart: [] }) as never,
    safeMode: async () => ({ active: false, crashes: 0 }),
    users: {
      list: () => [],
      verify: async () => null,
      add: async ({ username }: object & { username?: string }) => ({ username }),
      update: async (username: string) => ({ username }),
      remove: (username: string) => ({ username }),
    } as unknown as UserStore,
    jobs: {
      ...{ counters: { total: 0, failed: 0 }, running: 0, queued: 0 },
      ...{ list: () => [], submit: async () => ({ ok: true }), cancel: () => ({}) },
      onJob: () => () => undefined,
    } as unknown as JobRunner,
    plugins: {
      list: () => ({ plugins: { mount_index: [], runtime_index: [], config_index: {} }, items: [] }),
      ...{ load: async () => undefined, start: async () => undefined, stop: async () => undefined },
    } as unknown as PluginsControl,
    display: new DisplayRegistry(),
    events: { onReading: () => () => undefined, onLink: () => () => undefined },
    restore: {
      piece: (offset, bytes) => offset + bytes.length,
      start: async () => ({ device_id: 'pi-shed', secrets_restored: false }),
    },
    backup: async (_, sink) => {
      await sink(Buffer.from('a backup'))
      return {}
    },
    sections: {
      identity: () => ({ device_id: 'pi-shed', assigned_id: 42 }),
      transport: () => ({ UDP: true }),
      pipeline: () => ({ precision: 4 }),
      plugins: () => ({}),
      users: () => [],
    },
    config: {
      get: key => (key === undefined ? { web_user: { auth_enabled: true } } : config[key]),
      has: key => Object.hasOwn(config, key),
      rows: () => [],
      prefixes: () => ['engine_settings'],
      writable: key => key.startsWith('engine_settings.'),
      set: async (key, value) => ({ key, old: null, new: value, restart: false }),
      setAll: async updates => updates.map(({ key, value }) => ({ key, old: null, new: value, restart: false })),
      update: async () => [],
    },
    transport: () => ({
      transport: {
        application_status: {},
        transport_status: { UDP: true },
        physical_status: {},
        transporters_status: { UDP: true },
        active_transporters: ['UDP'],
      },
      items: [
        {
          name: 'UDP',
          layer: 'L4',
          enabled: true,
          driver: true,
          default_port: 8080,
          config_key: 'RESOURCES.transport_config.udp',
          links: [],
        },
      ],
    }),
    latest: () => [
      {
        device_id: 'pi-shed',
        state: 'ONLINE',
        t_raw: 1_710_000_000_000,
        sensors: [{ id: 'cpu', status: 'OK', unit: '%', value: 3 }],
        medium: 'local',
        source_aid: 42,
      },
    ],
    db: new FakeDb(),
    auth: { enabled: () => fake.authOn, verify: async token => token === TOKEN, remembered: token => token === TOKEN },
    logger: { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') },
  }
  return Object.assign(fake, change)
}

export async function serve(
  t: TestContext,
  context: WebContext = fakeContext(),
  options: Partial<WebServerOptions> = {},
): Promise<WebServer> {
  const server = new WebServer(context, { host: '127.0.0.1', port: 0, ...options })
  await server.start()
  t.after(() => server.stop())
  return server
}

export interface Answer {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
  json: Record<string, unknown>
}

export interface Asked {
  method?: string
  headers?: Record<string, string>
  body?: string
  /** false: without the token */
  token?: string | false
}

export function ask(
  server: WebServer,
  path: string,
  { method, headers, body, token = TOKEN }: Asked = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      {
        host: '127.0.0.1',
        port: server.port,
        path,
        method: method ?? 'GET',
        agent: false,
        headers: { ...(token !== false && { 'X-Admin-Token': token }), ...headers },
      },
      response => {
        const chunks: Buffer[] = []
        response.on('data', chunk => chunks.push(chunk))
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          const isJson = String(response.headers['content-type']).startsWith('application/json')
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
            json: isJson && text ? JSON.parse(text) : {},
          })
        })
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}

/** Writes bytes on a bare connection and reads until it is closed; `end` closes our side after them. */
export function raw(server: WebServer, bytes: string | Buffer, end = false): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(server.port, '127.0.0.1', () => (end ? socket.end(bytes) : socket.write(bytes)))
    let text = ''
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
    })
    socket.on('close', () => resolve(text))
    socket.on('error', error => (text ? resolve(text) : reject(error)))
  })
}

export const dbError = (code: 'DB_STARTING' | 'DB_UNAVAILABLE' | 'DB_NOT_CONFIGURED'): OsError =>
  new OsError(code, 'a text of storage nobody needs to read')
