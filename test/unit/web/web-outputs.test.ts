// GET and POST /api/outputs: the outputs that a gateway's sources can set.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import type { OutputsControl } from '../../../src/links/hardware'
import { ask, fakeContext, serve } from './helper'

test('outputs are listed and set; an invalid request sets nothing', async t => {
  const calls: unknown[][] = []
  const outputs: OutputsControl = {
    list: () => [{ source: 'shed', name: 'pump', value: 0 }],
    set: async (name, value) => {
      if (name !== 'pump') throw new OsError('NOT_FOUND', `no output is named ${name}`)
      calls.push([name, value])
      return { source: 'shed', name, value }
    },
  }
  const server = await serve(t, fakeContext({ outputs }))
  const post = async (body: object): Promise<unknown[]> => {
    const { status, json } = await ask(server, '/api/outputs', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })
    return [status, (json as { error?: string }).error ?? json]
  }
  const { json } = await ask(server, '/api/outputs')
  assert.deepEqual(json, { ok: true, items: [{ source: 'shed', name: 'pump', value: 0 }] })
  assert.deepEqual(await post({ name: 'pump', value: 1 }), [200, { ok: true, source: 'shed', name: 'pump', value: 1 }])
  assert.deepEqual(calls.splice(0), [['pump', 1]])
  for (const value of [2, true, '1', null, undefined])
    assert.deepEqual(await post({ name: 'pump', value }), [400, 'value must be 0 or 1'])
  assert.deepEqual(await post({ value: 1 }), [400, 'name is required'])
  assert.deepEqual(await post({ name: 'lamp', value: 1 }), [404, 'no output is named lamp'])
  assert.deepEqual(calls, [])
})

test('a read-only gateway sets no output', async t => {
  const post = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"name":"pump","value":1}' }
  const outputs: OutputsControl = { list: () => [], set: () => assert.fail('nothing may be set') }
  const settings = () => ({ read_only: true, management_enabled: true })
  const reading = await serve(t, fakeContext({ outputs, settings }))
  assert.equal((await ask(reading, '/api/outputs', post)).status, 403)
})
