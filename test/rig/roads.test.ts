// Gateways upstream by every medium at once, over one bad cable: loss, delay and overtaking, a minute of silence, a cable
// pulled out, a line too thin. After each the upstream has every reading once, with its value (R8 to R11).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sleep } from '../lib/gateway'
import { Namespace } from '../lib/netem'
import { inTheRig } from '../lib/rig'
import { assertDelivered, end, Gateway, media, Upstream, uplinkOver } from './roads'

inTheRig(
  () => {
    const cable = new Namespace('field').cable()
    const upstream = new Upstream()
    const gateways = media.map(medium => new Gateway(`GW-${medium}`, cable, [uplinkOver(medium, cable)]))

    before(async () => {
      await upstream.open()
      await Promise.all(gateways.map((gateway, k) => gateway.start(['--port', String(8100 + k)])))
    })
    after(async () => {
      for (const gateway of gateways) await gateway.stop('SIGKILL')
      await upstream.close()
      end()
    })

    const delivered = async (): Promise<void> => {
      for (const gateway of gateways)
        console.error(
          gateway.id,
          await assertDelivered(upstream, gateway),
          JSON.stringify((await gateway.status()).uplinks),
        )
    }

    test('30 % loss, 50 ms delay and overtaking, both ways', async () => {
      cable.weather({ loss: 30, delayMs: 50, jitterMs: 20 })
      await sleep(10_000)
      await delivered()
    })

    test('a minute of silence', async () => {
      cable.silence()
      await sleep(+(process.env.CUT??60_000))
      const { packets } = cable.carried('up')
      const { packets: down } = cable.carried('down')
      console.error('sent into silence', packets, down)
      cable.fair()
      await delivered()
    })

    test('a line of 16 kbit/s', async () => {
      cable.weather({ rate: 16_000 })
      await sleep(8_000)
      console.error(cable.carried('up'))
      cable.fair()
      await delivered()
    })
  },
  { memory: 1536, seconds: 200 },
)
