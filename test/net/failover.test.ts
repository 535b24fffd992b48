// Two uplinks over two cables (R12): the first becomes silent, or is pulled; the second takes over, the first
// becomes active again, and nothing is lost or duplicated.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../lib/gateway'
import { assertDelivered, Gateway, Upstream, uplinkOver } from '../lib/media-paths'
import { Namespace } from '../lib/netem'
import { inItsOwnNetwork } from '../lib/own-network'

inItsOwnNetwork(() => {
  const field = new Namespace('field')
  const first = field.cable()
  const second = field.cable()
  const upstream = new Upstream(['UDP', 'TCP'])
  const failover = { after_s: 1, back_s: 3 }
  // two addresses of one server: each uplink may use the session key of the other (X37)
  const uplinks = [uplinkOver('UDP', first), uplinkOver('TCP', second)].map(one => ({ ...one, server: 'upstream' }))
  const gateway = new Gateway('GW', first, uplinks, {
    gateway: { failover },
  })
  const carrier = async (name: string): Promise<void> => {
    await until(`${name} is active`, async () => (await gateway.status()).forwarding.uplink === name)
  }
  before(async () => {
    await upstream.open()
    await gateway.start([])
  })
  after(async () => {
    await gateway.stop('SIGKILL')
    await upstream.close()
  })

  for (const [how, cut, mend] of [
    ['nobody answers any more', () => first.silence(), () => first.fair()],
    ['the cable is pulled out', () => first.unplug(), () => first.plug()],
  ] as const)
    test(`the second uplink takes over when ${how}, and hands back without loss`, async () => {
      await carrier('udp')
      cut()
      await carrier('tcp')
      const before = await assertDelivered(upstream, gateway)
      mend()
      await carrier('udp')
      assert.ok((await assertDelivered(upstream, gateway)) > before)
    })
})
