// Specification, "Configuration keys": storage.sql and web_user.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../lib/gateway'
import type { Row } from '../rows'
import { closes, library, newFolder, newNode, patient, T } from '../world'
import { type Key, keyRow } from './key'
import { served } from './media'

const sql = (settings: object) => ({ storage: { sql: settings } })

/** Packets of which the view keeps more than one window. */
const MANY = 33_000

const STORAGE: readonly Key[] = [
  {
    key: 'storage.sql.enabled',
    standard: true,
    value: false,
    bad: 'on',
    range: /true or false/,
    effect: async () => {
      assert.ok(newNode(sql({ enabled: true })).dbManager)
      const off = newNode(sql({ enabled: false }))
      assert.equal(off.dbManager, null)
      await assert.rejects(new library.DatabaseManager(off.config).connect(), { code: 'DB_NOT_CONFIGURED' })
      const open = { web_user: { auth_enabled: false } }
      await served({ ...open, ...sql({ enabled: false }) }, async url => {
        const answer = await fetch(`${url}/api/data/devices`)
        assert.equal(answer.status, 503)
        const { ok, error } = (await answer.json()) as Record<string, unknown>
        assert.deepEqual({ ok, error }, { ok: false, error: 'database not configured' })
      })
      await served({ ...open, ...sql({ enabled: true }) }, async url => {
        await until('it answers', async () => (await fetch(`${url}/api/data/devices`)).status === 200)
      })
    },
  },
  {
    key: 'storage.sql.dialect',
    standard: 'sqlite',
    value: 'mysql',
    bad: 'oracle',
    range: /"sqlite" or "mysql" or "postgresql"/,
    effect: async () => {
      const db = closes(new library.DatabaseManager(newNode(sql({ dialect: 'sqlite' })).config))
      await db.connect()
      assert.equal(db.status()?.dialect, 'sqlite')
    },
  },
  {
    key: 'storage.sql.driver.path',
    value: 'somewhere',
    bad: 3,
    range: /a text/,
    effect: async () => {
      const path = join(newFolder(), 'windows')
      const log = closes(await library.FlashLog.open({ dir: newFolder(), commitIntervalMs: 50 }))
      for (let k = 0; k < MANY; k++) {
        const sensors = [{ id: 'T1', status: 'OK', unit: 'K', value: k }]
        log.appendFact({ id: 'DEV', state: 'ONLINE', tRaw: T * 1000 + k, aid: 7, sensors }, { medium: 'local' })
      }
      await log.flush()
      const db = new library.DatabaseManager(newNode(sql({ driver: { path } })).config, { log })
      await db.connect()
      assert.equal((await patient(() => db.queryPackets())).total, MANY)
      await db.close()
      assert.ok(existsSync(path) && readdirSync(path).length > 0, 'the windows of the view lie in driver.path')
    },
  },
]

/** Whether the dialect is built in; a server that does not answer is another case. */
const dialect = (name: string): Row => ({
  name: `storage.sql.dialect ${name}`,
  observe: async () => {
    const db = new library.DatabaseManager(newNode(sql({ dialect: name })).config)
    const error = await db.connect().then(
      () => null,
      (thrown: Error & { code?: string }) => thrown,
    )
    await db.close()
    assert.notEqual(error?.code, 'DB_NOT_CONFIGURED', error?.message)
  },
})

const put = async (url: string, body: object): Promise<[number, unknown]> => {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${url}/api/config`, { method: 'PUT', headers, body: JSON.stringify(body) })
  return [answer.status, ((await answer.json()) as { error?: string }).error]
}

const WEB: readonly Key[] = [
  {
    key: 'web_user.auth_enabled',
    standard: true,
    value: false,
    bad: 1,
    range: /true or false/,
    effect: async () => {
      const ask = (url: string): Promise<number[]> =>
        Promise.all(
          ['/api/config', '/api/data/devices', '/api/dashboard'].map(async path => (await fetch(url + path)).status),
        )
      await served({ web_user: { auth_enabled: true } }, async url => assert.deepEqual(await ask(url), [401, 401, 401]))
      await served({ web_user: { auth_enabled: false } }, url =>
        until('all answer', async () => (await ask(url)).join() === '200,200,200'),
      )
    },
  },
  {
    key: 'web_user.read_only',
    standard: false,
    value: true,
    bad: 'no',
    range: /true or false/,
    effect: () =>
      served({ web_user: { auth_enabled: false, read_only: true } }, async (url, node) => {
        const change = { engine_settings: { network_retry: { max_retries: 7 } } }
        assert.deepEqual(await put(url, change), [403, 'read-only mode is active'])
        node.store.set('web_user.read_only', false)
        assert.deepEqual(await put(url, change), [200, undefined])
        assert.equal(node.store.get('engine_settings.network_retry.max_retries'), 7)
      }),
  },
  {
    key: 'web_user.writable_config_prefixes',
    value: ['device_id'],
    bad: 'device_id',
    range: /a list/,
    effect: () =>
      served({ web_user: { auth_enabled: false, writable_config_prefixes: ['Client_Core'] } }, async (url, node) => {
        const [one, other] = [{ Client_Core: { server_port: 4200 } }, { gateway: { log_level: 'debug' } }]
        assert.deepEqual(await put(url, one), [200, undefined])
        assert.deepEqual(await put(url, other), [403, 'write blocked by writable_config_prefixes'])
        node.store.update({ web_user: { writable_config_prefixes: ['gateway'] } })
        assert.deepEqual(await put(url, one), [403, 'write blocked by writable_config_prefixes'])
        assert.deepEqual(await put(url, other), [200, undefined])
      }),
  },
]

export const serviceRows: readonly Row[] = [
  ...STORAGE.map(keyRow),
  dialect('mysql'),
  dialect('postgresql'),
  ...WEB.map(keyRow),
]
