// Gateways upstream by every medium at once, over one bad cable: loss, delay and overtaking, a long silence, a line too thin.
// After each the upstream has every reading once, with its value (R8 to R11).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sleep } from '../lib/gateway'
import { Namespace } from '../lib/netem'
import { inTheRig } from '../lib/rig'
import { allMedia, assertDelivered, Gateway, Upstream, uplinkOver } from './roads'

const SILENCE_S = 45

inTheRig(
  () => {
    const cable = new Namespace('field').cable()
    const upstream = new Upstream(allMedia)
    const gateways = allMedia.map(medium => new Gateway(`GW-${medium}`, cable, [uplinkOver(medium, cable)]))

    before(async () => {
      await upstream.open()
      await Promise.all(gateways.map((gateway, k) => gateway.start(['--port', String(8100 + k)])))
    })
    after(async () => {
      await Promise.all(gateways.map(gateway => gateway.stop('SIGKILL')))
      await upstream.close()
    })
    const delivered = async (): Promise<void> => {
      const counts = await Promise.all(gateways.map(gateway => assertDelivered(upstream, gateway, 90_000)))
      assert.ok(
        counts.every(count => count > 20),
        counts.join(),
      )
    }

    test('30 % loss, 50 ms delay and overtaking, both ways', async () => {
      cable.weather({ loss: 30, delayMs: 50, jitterMs: 20 })
      await sleep(10_000)
      assert.ok(cable.carried('up').dropped > 20)
      cable.fair()
      await delivered()
    })

    test('a silence longer than every time-out: few packets into it, and everything after it', async () => {
      cable.silence()
      await sleep(SILENCE_S * 1000)
      const { packets } = cable.carried('up')
      cable.fair()
      // connections tried, repeats of the kernel's TCP and of QUIC, probes: a storm would be thousands
      assert.ok(packets < 2 * SILENCE_S * gateways.length, `${packets} packets into the silence`)
      await delivered()
    })

    test('a line of 16 kbit/s for all of them', async () => {
      cable.weather({ rate: 16_000 })
      await sleep(8000)
      cable.fair()
      await delivered()
    })
  },
  { memory: 1536, seconds: 230 },
)
