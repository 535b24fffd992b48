// POST /api/transport: bodies, refusals, and their order.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayApi } from '../../../src/gateway/api'
import { OsError } from '../../../src/lib/errors'
import type { WebContext } from '../../../src/web/context'
import { overHttp } from '../../../src/web/from-gateway'
import { type Answer, ask, fakeContext, serve } from './helper'

const JSON_TYPE = { 'Content-Type': 'application/json' }

function world(change: Partial<WebContext> = {}) {
  const calls: unknown[][] = []
  const context = fakeContext({
    media: {
      toggle: async (medium, enabled) => {
        if (medium === 'pigeon') throw new OsError('BAD_REQUEST', 'unknown medium', { details: { medium } })
        calls.push(['toggle', medium, enabled])
        return { name: medium.toUpperCase(), enabled }
      },
      reload: async medium => {
        calls.push(['reload', medium])
        return { name: medium.toUpperCase(), reloaded: medium === 'udp' }
      },
    },
    ...change,
  })
  return { context, calls }
}

test('a body switches, reloads, or both; a body without either switches on', async t => {
  const { context, calls } = world()
  const server = await serve(t, context)
  const post = async (body: object): Promise<unknown[]> => {
    const { status, json } = await ask(server, '/api/transport', {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify(body),
    })
    return [status, json, calls.splice(0)]
  }
  const on = { ok: true, medium: 'UDP', enabled: true }
  assert.deepEqual(await post({ medium: 'udp' }), [200, on, [['toggle', 'udp', true]]])
  assert.deepEqual(await post({ medium: 'udp', reload: false }), [200, on, [['toggle', 'udp', true]]])
  assert.deepEqual(await post({ medium: 'udp', enabled: false }), [
    200,
    { ...on, enabled: false },
    [['toggle', 'udp', false]],
  ])
  assert.deepEqual(await post({ medium: 'udp', reload: true }), [
    200,
    { ok: true, medium: 'UDP', reloaded: true },
    [['reload', 'udp']],
  ])
  assert.deepEqual(await post({ medium: 'tcp', reload: true }), [
    200,
    { ok: false, medium: 'TCP', reloaded: false },
    [['reload', 'tcp']],
  ])
  assert.deepEqual(await post({ medium: 'udp', enabled: true, reload: true }), [
    200,
    { ...on, reloaded: true },
    [
      ['toggle', 'udp', true],
      ['reload', 'udp'],
    ],
  ])
})

test('wrong bodies are 400 with a reason and change nothing', async t => {
  const { context, calls } = world()
  const server = await serve(t, context)
  const refused = async (body: string, error: string, status = 400): Promise<void> => {
    const answer = await ask(server, '/api/transport', { method: 'POST', headers: JSON_TYPE, body })
    assert.deepEqual([answer.status, answer.json.ok, answer.json.error], [status, false, error], body.slice(0, 40))
  }
  await refused('{"medium":"pigeon"}', 'unknown medium')
  await refused('', 'medium is required')
  await refused('{"medium":""}', 'medium is required')
  await refused('{"medium":["udp"]}', 'medium is required')
  await refused('{"medium":"udp","enabled":"no"}', 'enabled must be true or false')
  await refused('{"medium":"udp","reload":1}', 'reload must be true or false')
  await refused('{"medium":', 'the body is not JSON')
  await refused('["udp"]', 'the body must be a JSON object')
  await refused('null', 'the body must be a JSON object')
  await refused(`{"medium":"${'x'.repeat(1024 * 1024)}"}`, 'the body is larger than 1048576 bytes', 413)
  assert.deepEqual(calls, [])
})

test('a write is refused while read_only, without the token, and where the key may not be written', async t => {
  const settings = { read_only: true, management_enabled: true }
  const { context, calls } = world({ settings: () => settings })
  const server = await serve(t, context)
  const post = (token?: false): Promise<Answer> =>
    ask(server, '/api/transport', {
      method: 'POST',
      headers: JSON_TYPE,
      body: '{"medium":"udp"}',
      ...(token === false && { token }),
    })
  for (const token of [undefined, false] as const) {
    const answer = await post(token)
    assert.deepEqual([answer.status, answer.json.error], [403, 'read-only mode is active'])
  }
  settings.read_only = false
  assert.equal((await post(false)).status, 401)
  assert.deepEqual(calls, [])
  assert.equal((await post()).status, 200)
  settings.management_enabled = false
  for (const path of ['/api/transport', '/api/config', '/api/dashboard', '/api/health/no'])
    for (const token of [undefined, false] as const) {
      const { status, json } = await ask(server, path, { ...(token === false && { token }) })
      if (path === '/api/health/no') assert.equal(status, 404)
      else assert.deepEqual([status, json.error], [403, 'management api disabled'], path)
    }
  assert.deepEqual((await post()).json.error, 'management api disabled')
  for (const path of ['/health', '/', '/users', '/api/data/packets'])
    assert.notEqual((await ask(server, path)).status, 403, path)
  settings.management_enabled = true
  context.media = {
    ...context.media!,
    toggle: async () => {
      throw new OsError('FORBIDDEN', 'write blocked by writable_config_prefixes', { details: { keys: ['a.b'] } })
    },
  }
  const blocked = await post()
  assert.equal(blocked.status, 403)
  assert.deepEqual(blocked.json, {
    ok: false,
    error: 'write blocked by writable_config_prefixes',
    code: 'FORBIDDEN',
    keys: ['a.b'],
  })
})

test('a starting gateway answers with a retry time, and nothing is changed', async t => {
  const starting = (): never => {
    throw new OsError('STARTING', 'the gateway is starting')
  }
  const written: string[] = []
  const transport = { toggle: () => written.push('toggle'), reload: () => written.push('reload') }
  const config = { get: () => ['RESOURCES'] } as never
  const gateway = gatewayApi({ ready: starting, sources: {} } as never, {} as never, transport as never)
  const media = overHttp(config, gateway.transport).transport()
  const { context } = world({ media, reload: async () => starting(), safeMode: async () => starting() })
  const server = await serve(t, context)
  for (const [path, body] of [
    ['/api/transport', { medium: 'udp' }],
    ['/api/transport', { medium: 'udp', reload: true }],
    ['/api/reload', {}],
    ['/api/safe-mode', { leave: true }],
  ] as const) {
    const answer = await ask(server, path, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) })
    const { status, json, headers } = answer
    assert.deepEqual([status, json], [503, { ok: false, error: 'the gateway is starting', code: 'STARTING' }], path)
    assert.equal(headers['retry-after'], '5')
  }
  assert.deepEqual(written, [])
  assert.ok(!context.lines.some(line => line.startsWith('error')), 'it is no error of the gateway')
})
