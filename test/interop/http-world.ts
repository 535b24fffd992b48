// A real gateway with its page, and requests to it.
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'

export interface Answer {
  status: number
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the route gives
  json: any
}

export const SECRET = 'hunter2-correct-horse'

/** A gateway with two fast sources and an uplink whose broker is absent. */
export async function world(t: TestContext) {
  const dir = tempDir()
  const port = await freePort()
  const uplink = { name: 'cloud', medium: 'MQTT', host: '127.0.0.1', port: 9, username: 'u', password: SECRET }
  // the two files of the SD image (src/web/system-update.ts)
  process.env.OS_NODE_SLOTS = join(dir, 'slots.json')
  process.env.OS_NODE_UPDATE_REQUEST = join(dir, 'request')
  process.env.OS_NODE_UPDATE_UPLOAD = join(dir, 'upload')
  process.env.OS_NODE_WIFI_REQUEST = join(dir, 'wifi')
  process.env.OS_NODE_WIFI_PROBLEM = join(dir, 'problem')
  writeFileSync(process.env.OS_NODE_SLOTS, '{"ok":true,"board":"rpi-4","slots":[]}')
  const gw = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'GW1',
    assigned_id: 5,
    RESOURCES: { service_plugins: { web_user: { port } }, application_status: { mqtt: true } },
    gateway: {
      sources: [
        { name: 'up', type: 'uptime', interval_ms: 100 },
        { name: 'mem', type: 'memory', interval_ms: 200 },
        // its state names the type as the reason
        { name: 'hook', type: `https://me:${SECRET}@host/` },
      ],
      uplinks: [uplink],
      log: { commit_interval_ms: 50 },
    },
  })
  t.after(async () => {
    await gw.stop('SIGKILL')
    removeDir(dir)
  })
  const { token } = gw.json('token', '--new') as { token: string }
  await gw.start([], port)
  const send = (method: string, path: string, body?: unknown, as: string | null = token): Promise<Answer> =>
    request(port, method, path, body, as)
  await until('packets in the database', async () => (await send('GET', '/api/data/devices')).json.total > 0)
  return { gw, port, token, send }
}

export function request(
  port: number,
  method: string,
  path: string,
  body?: unknown,
  token?: string | null,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = http.request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent: false,
        headers: {
          ...(token && { 'X-Admin-Token': token }),
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
        },
      },
      response => {
        let text = ''
        response.setEncoding('utf8').on('data', chunk => {
          text += chunk
        })
        response.on('end', () => {
          const isJson = String(response.headers['content-type']).startsWith('application/json')
          resolve({ status: response.statusCode ?? 0, text, json: isJson && text ? JSON.parse(text) : {} })
        })
      },
    )
    asked.on('error', reject)
    asked.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
