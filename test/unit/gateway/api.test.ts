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

test('the interface has what the start message, the page and the plugins need of the gateway, as plain values', async () => {
  let leave = (): void => undefined
  const left = new Promise<void>(resolve => {
    leave = resolve
  })
  const identity = { deviceId: 'gw', assigned: false, assignedId: 0xffffffff }
  const guard = { safeMode: 'three crashes' as string | undefined, left }
  const gateway = {
    ...{ identity, guard, sources: {}, log: { failure: undefined } },
    localUpstream: { running: null as object | null },
    uplinks: { list: [{ name: 'a', medium: 'UDP', status: 'more' }] },
    latest: { own: () => ({ cpu_busy: 3 }) },
  }
  const api = gatewayApi(gateway as never, {} as never, {} as never)
  const uplinks = [{ name: 'a', medium: 'UDP' }]
  assert.deepEqual(api.summary(), { deviceId: 'gw', assignedId: null, uplinks, localUpstream: null })
  Object.assign(identity, { assigned: true, assignedId: 7 })
  gateway.localUpstream.running = { webPort: 8766, dataDir: '/d', stop: 'more' }
  const localUpstream = { webPort: 8766, dataDir: '/d' }
  assert.deepEqual(api.summary(), { deviceId: 'gw', assignedId: 7, uplinks, localUpstream })
  assert.deepEqual(api.ownValues(), { cpu_busy: 3 })
  assert.equal(api.safeModeReason(), 'three crashes')
  const events: string[] = []
  api.onSafeModeLeft(() => events.push('left'))
  guard.safeMode = undefined
  leave()
  await left
  assert.deepEqual([api.safeModeReason(), events], [undefined, ['left']])
})
