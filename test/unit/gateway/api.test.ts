// The one interface of a running gateway: changes of Config.json are refused until the gateway can follow them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayApi } from '../../../src/gateway/api'
import { OsError } from '../../../src/lib/errors'

test('no caller can switch a medium before the gateway is ready', async () => {
  let starting = true
  const changed: unknown[] = []
  const gateway = {
    ready: () => {
      if (starting) throw new OsError('STARTING', 'the gateway is starting')
    },
    sources: {},
  }
  const transport = {
    view: () => ({}),
    toggle: async (name: string, enabled: boolean) => changed.push({ name, enabled }),
    reload: async (name: string) => changed.push({ name }),
  }
  const { transport: api } = gatewayApi(gateway as never, {} as never, transport as never)
  await assert.rejects(api.toggle('UDP', true), { code: 'STARTING' })
  await assert.rejects(api.reload('UDP'), { code: 'STARTING' })
  assert.deepEqual(changed, [])
  starting = false
  await api.toggle('UDP', true)
  await api.reload('UDP')
  assert.deepEqual(changed, [{ name: 'UDP', enabled: true }, { name: 'UDP' }])
})
