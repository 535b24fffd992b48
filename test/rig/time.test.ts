// A board without an RTC (R21, R22): its clock is at 1970, its upstream is reached by TLS and sends the time, and then the
// clock is set wrong repeatedly. The upstream gets every reading with its right time, in order.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makeCerts } from '../lib/certs'
import { askControl } from '../lib/control'
import { sleep, until } from '../lib/gateway'
import { certs, certsDir, Gateway, logged, Upstream, uplinkOver } from '../lib/media-paths'
import { Namespace } from '../lib/netem'
import { inTheRig, setClock, tool } from '../lib/rig'

const DAY = 86_400_000
/** struct timex: modes status and maximal error, so that the kernel reports its clock as right, as with ntpd */
const NTP_SYNCED = '$t = pack("L x4 q q q q l x164", 0x14, 0, 0, 1000, 1000, 0); syscall(159, $t) >= 0 or die $!'

inTheRig(
  () => {
    const cable = new Namespace('field').cable()
    const tls = { ca: certs('ca.crt'), servername: 'localhost' }
    const upstream = new Upstream(['TCP'], { tls: { cert: certs('server.crt'), key: certs('server.key') } })
    const gateway = new Gateway('GW', cable, [uplinkOver('TCP', cable, { tls })])
    let began = 0
    let steady = 0
    /** the time of a right clock */
    const trueTime = (): number => began + performance.now() - steady
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
    const timeOf = async (): Promise<any> => (await gateway.status()).time
    /** The gateway has the right time: it is sent in whole seconds, and its maximal delay, `since` then, is not known. */
    const assertRight = async (since: number): Promise<void> => {
      const took = performance.now() - since
      const { offset_ms } = await timeOf()
      const off = Date.now() + offset_ms - trueTime()
      assert.ok(Math.abs(off) < 3500 + took, `${off} ms off`)
    }

    before(async () => {
      makeCerts(certsDir)
      tool('perl', '-e', NTP_SYNCED)
      began = Date.now()
      steady = performance.now()
      await upstream.open()
      assert.equal((await askControl(upstream.dataDir, 'status')).time.quality, 'ntp')
      setClock(DAY)
      await gateway.start([])
    })
    after(async () => {
      await gateway.stop('SIGKILL')
      await upstream.close()
    })

    test('a gateway that starts in 1970 reaches its upstream by TLS and gets the right time from it', async () => {
      assert.ok(Date.now() < 2 * DAY)
      const since = performance.now()
      await until('the upstream sent the time', async () => (await timeOf()).quality === 'server')
      await assertRight(since)
    })

    for (const [words, jump] of [
      ['fifty years on', 50 * 365 * DAY],
      ['fourteen days back', -14 * DAY],
      ['an hour back', -DAY / 24],
      ['to 1970', null],
    ] as const)
      test(`the clock is set ${words}: the time continues, and is requested from the upstream again`, async () => {
        const { last_sync } = await timeOf()
        const since = performance.now()
        setClock(jump === null ? DAY : Date.now() + jump)
        await until('the time was sent again', async () => {
          const { quality, last_sync: now } = await timeOf()
          return quality === 'server' && now !== last_sync
        })
        await assertRight(since)
        await sleep(1500)
      })

    test('the upstream has every reading, with the time it was taken, in order', async () => {
      const sent = await until('it has logged enough', () => {
        const facts = logged(gateway)
        return facts.length > 40 ? facts : null
      })
      const got = await until('the upstream has it', () => {
        const facts = logged(upstream).filter(fact => fact.id === gateway.id)
        return facts.length >= sent.length ? facts : null
      })
      got.forEach((fact, k) => {
        assert.ok(k === 0 || fact.t_raw > got[k - 1]!.t_raw, `${fact.t_raw} after ${got[k - 1]?.t_raw}`)
        // the smallest jump was an hour
        assert.ok(fact.t_raw > began - 60_000 && fact.t_raw < trueTime() + 60_000, new Date(fact.t_raw).toISOString())
      })
    })
  },
  { memory: 1024 },
)
