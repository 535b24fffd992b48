// Gateways that use several media simultaneously over one bad cable: loss, delay and reordering, lost answers, a long
// silence, a slow line. After each, the upstream has every reading once, with its value (R8 to R11); each medium is checked
// separately.
// Long: longer bad conditions, a slow line
// Needs: quic quicnode
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, type TestContext, test } from 'node:test'
import { askControl } from './control'
import { sleep, until } from './gateway'
import { assertDelivered, Gateway, type Medium, Upstream, uplinkOver } from './media-paths'
import { Namespace, type Weather } from './netem'
import { LONG, QUARTER, rounds } from './random'

/** longer than any timeout of a medium: a peer is lost after 10 s, a connection attempt times out after 10 s */
const SILENCE_S = rounds(12, 25)

/** The tests of these media; `delay`: the kernel's delay in addition to the loss. */
export function weatherTests(media: readonly Medium[], delay: Weather = {}): void {
  const cable = new Namespace('field').cable()
  const upstream = new Upstream(media)
  const gateways = media.map(medium => ({
    medium,
    gateway: new Gateway(`GW-${medium}`, cable, [uplinkOver(medium, cable)]),
  }))

  before(async () => {
    await upstream.open()
    await Promise.all(gateways.map(({ gateway }, k) => gateway.start(['--port', String(8100 + k)])))
    for (const { medium, gateway } of gateways)
      await until(`${medium} is active`, async () => (await gateway.status()).forwarding.cursor > 10)
  })
  after(async () => {
    await Promise.all(gateways.map(({ gateway }) => gateway.stop('SIGKILL')))
    await upstream.close()
  })
  const delivered = async (t: TestContext): Promise<void> => {
    for (const { medium, gateway } of gateways)
      await t.test(`${medium} delivers all readings`, async () => {
        const count = await assertDelivered(upstream, gateway)
        assert.ok(count > 20, `${count}`)
      })
  }
  const received = async (): Promise<Record<string, number>> => (await askControl(upstream.dataDir, 'status')).received

  test('every process has loaded the addon, which lets UDP move many packets per system call', () => {
    for (const { pid } of [upstream, ...gateways.map(({ gateway }) => gateway)]) {
      const maps = readFileSync(`/proc/${pid}/maps`, 'utf8')
      assert.match(maps, /os_node\.node/)
    }
  })

  test(`30 % loss${delay.delayMs ? `, ${delay.delayMs} ms delay and overtaking` : ''}, in both directions`, async t => {
    cable.weather({ loss: 30, ...delay })
    await sleep(rounds(4000, 8000))
    await until('packets were lost', () => cable.carried('up').dropped > 10 * media.length)
    cable.fair()
    await delivered(t)
  })

  test("30 % of the upstream's answers are lost: nothing is lost, nothing is stored twice", async t => {
    const before = await received()
    cable.weather({ loss: 30 }, 'down')
    await sleep(rounds(3000, 6000))
    await until('answers were lost', () => cable.carried('down').dropped > 7 * media.length)
    // one answer confirms all packets before it, so single lost answers have little effect: lose all of them
    cable.silence('down')
    await sleep(3000)
    // with a slow kernel a sender waits longer, closes its connection, and needs the line to reconnect
    cable.fair()
    const { repeated, duplicates } = await until('unanswered packets were resent', async () => {
      const now = await received()
      return now.repeated! + now.duplicates! > before.repeated! + before.duplicates! ? now : null
    })
    t.diagnostic(`${repeated! - before.repeated!} frames came again, ${duplicates! - before.duplicates!} duplicates`)
    await delivered(t)
  })

  test('a silence longer than every time-out: few packets are sent into it, and all of them after it', async t => {
    const since = performance.now()
    cable.silence()
    await sleep(SILENCE_S * 1000)
    const { packets } = cable.carried('up')
    const seconds = (performance.now() - since) / 1000
    cable.fair()
    t.diagnostic(`${packets} packets into ${seconds.toFixed(1)} s of silence`)
    // connection attempts every five seconds, retransmits of TCP and QUIC, probes: a storm would be thousands
    assert.ok(packets < 150 * media.length, `${packets} packets into the silence`)
    await delivered(t)
  })

  if (LONG && !QUARTER)
    test('all media deliver over one line of 16 kbit/s', async t => {
      cable.weather({ rate: 16_000 })
      await sleep(8000)
      cable.fair()
      await delivered(t)
    })
}
