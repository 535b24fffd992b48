// Long absence and lost state, over UDP: an upstream that was away while more than a thousand readings were logged (R8),
// one that loses its templates in the middle of bad weather, and a path on which nothing is ever answered (R10).
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sleep, until } from '../lib/gateway'
import { assertDelivered, Gateway, logged, Upstream, uplinkOver } from '../lib/media-paths'
import { Namespace } from '../lib/netem'
import { inTheRig } from '../lib/rig'
import { assertSame } from '../lib/same'

const RATE = 240

inTheRig(
  () => {
    const cable = new Namespace('field').cable()
    const upstream = new Upstream(['UDP'])
    const busy = new Gateway('GW-BUSY', cable, [uplinkOver('UDP', cable, { rate_packets_s: RATE })], { perSecond: 80 })
    const deaf = new Gateway('GW-DEAF', cable, [uplinkOver('UDP', cable, { delivery: 'best_effort', full_every: 5 })])
    const open = (): Promise<void> => upstream.start(['--web-port', '8001'], 8001)
    before(async () => {
      await upstream.open()
      await busy.start(['--port', '8100'])
    })
    after(async () => {
      for (const gateway of [busy, deaf]) await gateway.stop('SIGKILL')
      await upstream.close()
    })

    test('after an outage the backlog arrives paced and in order, and the live readings in parallel', async t => {
      await until('the path is good', async () => (await busy.status()).forwarding.cursor > 50)
      const cut = Date.now()
      cable.silence()
      await until('a large backlog', async () => (await busy.status()).forwarding.backlog > 1150)
      const mended = Date.now()
      const had = logged(upstream).length
      cable.weather({ delayMs: 5 })
      let since = performance.now()
      await until('it goes on', () => {
        const now = performance.now()
        if (logged(upstream).length > had) return true
        since = now // nothing had arrived by then
        return false
      })
      await sleep(4000)
      const came = logged(upstream).length - had
      const seconds = (performance.now() - since) / 1000
      t.diagnostic(`${came} facts came in ${seconds.toFixed(1)} s`)
      // a second's worth may accumulate
      assert.ok(came < RATE * (1 + seconds) * 1.1, `${came} facts in ${seconds} s`)
      await assertDelivered(upstream, busy)
      // not earlier: changing the weather drops packets in the cable, and those would be resent out of order
      cable.fair()

      const times = logged(upstream).map(fact => fact.t_raw)
      // packets in flight when the cable was cut are resent as the answers name them, in any order
      const backlog = times.filter(time => time > (cut + mended) / 2 && time < mended)
      assert.ok(backlog.length > 400, `${backlog.length}`)
      assert.deepEqual(
        backlog,
        [...backlog].sort((a, b) => a - b),
      )
      const end = times.indexOf(backlog.at(-1)!)
      const beside = times.slice(0, end).filter(time => time > mended).length
      t.diagnostic(`${beside} live facts before the last of ${backlog.length} older ones`)
      assert.ok(beside > 50, `${beside} live facts beside the backlog`)
    })

    test('an upstream killed in bad weather and restarted without its templates gets every value right', async () => {
      cable.weather({ loss: 20, duplicate: 20, delayMs: 30, jitterMs: 20 })
      for (let k = 0; k < 2; k++) {
        await sleep(2000)
        await upstream.stop('SIGKILL')
        rmSync(join(upstream.dataDir, 'device_registry'), { recursive: true, force: true })
        await open()
      }
      await sleep(2000)
      cable.fair()
      await assertDelivered(upstream, busy)
    })

    test('where nothing is ever answered, packets are lost, and no value is ever wrong', async t => {
      await busy.stop()
      // it gets its id in good weather; a lost answer to that would be requested again only after seconds
      await deaf.start(['--port', '8101'])
      await until('it has an id and sends', async () => (await deaf.status()).forwarding.cursor > 0)
      cable.weather({ loss: 20, duplicate: 20, delayMs: 30, jitterMs: 20 })
      await until('packets were lost', () => cable.carried('up').dropped > 12)
      await deaf.stop()
      cable.fair()
      const sent = logged(deaf)
      const arrived = (): ReturnType<typeof logged> => logged(upstream).filter(fact => fact.id === deaf.id)
      let seen = -1
      const got = await until('a third of them is there, and no more come', async () => {
        const facts = arrived()
        if (facts.length > sent.length / 3 && facts.length === seen) return facts
        seen = facts.length
        await sleep(500)
        return null
      })
      t.diagnostic(`${got.length} of ${sent.length}`)
      assert.ok(got.length < sent.length, `${got.length} of ${sent.length}`)
      const keys = new Set(got.map(fact => fact.t_raw))
      assertSame(
        sent.filter(fact => keys.has(fact.t_raw)),
        got,
      )
    })
  },
  { memory: 1024 },
)
