// The ports of the local upstream of a new gateway, with several gateways on one machine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LocalUpstreamProcess } from '../../../src/gateway/local-upstream'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import { freePort, freeUdpPort } from '../../lib/gateway'

const upstream = (): LocalUpstreamProcess =>
  new LocalUpstreamProcess({ script: '', dataDir: '', deviceId: 'up', clock: systemClock, logger: silentLogger })
const portsOf = ({ packetPort, webPort }: LocalUpstreamProcess) => ({ packets: packetPort, web: webPort })

test('gateways that start at the same moment choose different ports, and the default ports are free again after stop', async () => {
  const usual = { packets: await freeUdpPort(), web: await freePort() }
  // none of them listens yet: only that the ports are free could be checked
  const all = [upstream(), upstream(), upstream()]
  await Promise.all(all.map(one => one.choosePorts({ ...usual, waitMs: 0 })))
  assert.equal(new Set(all.map(one => one.packetPort)).size, 3)
  assert.equal(new Set(all.map(one => one.webPort)).size, 3)
  assert.equal(all.filter(one => one.packetPort === usual.packets).length, 1)
  assert.equal(all.filter(one => one.webPort === usual.web).length, 1)
  await Promise.all(all.map(one => one.stop()))
  const next = upstream()
  await next.choosePorts({ ...usual, waitMs: 0 })
  assert.deepEqual(portsOf(next), usual)
  await next.stop()
})
