// The test runner inside a running gateway: its commands answer through the gateway, which continues reading meanwhile.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, freeUdpPort, Machine, removeDir, tempDir } from '../lib/gateway'

const dir = tempDir()
let gateway: Machine

before(async () => {
  const [web, packets] = [await freePort(), await freeUdpPort()]
  gateway = new Machine(join(dir, 'gateway'), 'serve', { device_id: 'GW' })
  await gateway.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(web)], web)
})
after(async () => {
  await gateway.stop()
  removeDir(dir)
})

test('plugin-cmd test_plugin runs the self-test and a stress run in the gateway', () => {
  const component = gateway.json('plugin-cmd', 'test_plugin', 'component')
  assert.equal(component.via, 'gateway')
  assert.equal(component.ok, true, JSON.stringify(component.suites).slice(0, 1000))
  const stress = gateway.json('plugin-cmd', 'test_plugin', 'stress', '--total', '500')
  assert.equal(stress.via, 'gateway')
  assert.deepEqual([stress.summary.ok, stress.summary.threads_per_process], [500, 1])
  assert.equal(gateway.run('plugin-cmd', 'test_plugin', 'stress', '--total', '0').code, 2)
  assert.equal(gateway.run('plugin-cmd', 'test_plugin', 'stress', '--require-rust').code, 1)
})

test('plugin-test works next to the gateway, in a separate process', () => {
  const { via, ok, passed } = gateway.json('plugin-test', '--suite', 'integration')
  assert.deepEqual([via, ok, passed], ['local', true, 9])
})
