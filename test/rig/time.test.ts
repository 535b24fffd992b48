// A board without a battery clock (R21, R22): its clock says 1970, its upstream is reached by TLS and tells the time, and then
// somebody sets the clock wrong again and again. The upstream gets every reading with its right time, in order.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makeCerts } from '../lib/certs'
import { askControl } from '../lib/control'
import { sleep, until } from '../lib/gateway'
import { Namespace } from '../lib/netem'
import { inTheRig, setClock, tool } from '../lib/rig'
import { certs, certsDir, Gateway, logged, Upstream, uplinkOver } from './roads'

const DAY = 86_400_000
/** struct timex: modes status and maximal error, so that the kernel calls its clock right, as ntpd does */
const NTP_SYNCED = '$t = pack("L x4 q q q q l x164", 0x14, 0, 0, 1000, 1000, 0); syscall(159, $t) >= 0 or die $!'

inTheRig(
  () => {
    const cable = new Namespace('field').cable()
    const tls = { ca: certs('ca.crt'), servername: 'localhost' }
    const upstream = new Upstream(['TCP'], { tls: { cert: certs('server.crt'), key: certs('server.key') } })
    const gateway = new Gateway('GW', cable, [uplinkOver('TCP', cable, { tls })])
    let began = 0
    let steady = 0
    /** what a right clock would say */
    const trueTime = (): number => began + performance.now() - steady
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
    const timeOf = async (): Promise<any> => (await gateway.status()).time

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

    test('a gateway that wakes up in 1970 reaches its upstream by TLS and has the right time from it', async () => {
      assert.ok(Date.now() < 2 * DAY)
      await until('the upstream told the time', async () => (await timeOf()).quality === 'server')
      const { offset_ms } = await timeOf()
      assert.ok(Math.abs(Date.now() + offset_ms - trueTime()) < 2500, `${Date.now() + offset_ms - trueTime()} ms off`)
    })

    for (const [words, jump] of [
      ['fifty years on', 50 * 365 * DAY],
      ['fourteen days back', -14 * DAY],
      ['an hour back', -DAY / 24],
      ['to 1970', null],
    ] as const)
      test(`the clock is set ${words}: the time goes on, and the upstream is asked again`, async () => {
        const { last_sync } = await timeOf()
        setClock(jump === null ? DAY : Date.now() + jump)
        await until('the time was told anew', async () => {
          const { quality, last_sync: now } = await timeOf()
          return quality === 'server' && now !== last_sync
        })
        const { offset_ms } = await timeOf()
        assert.ok(Math.abs(Date.now() + offset_ms - trueTime()) < 3500, `${Date.now() + offset_ms - trueTime()} ms off`)
        await sleep(1500)
      })

    test('the upstream has every reading, at the time it was taken, in order', async () => {
      const sent = logged(gateway)
      const got = await until('the upstream has it', () => {
        const facts = logged(upstream).filter(fact => fact.id === gateway.id)
        return facts.length >= sent.length ? facts : null
      })
      assert.ok(got.length > 40, `${got.length}`)
      got.forEach((fact, k) => {
        assert.ok(k === 0 || fact.t_raw > got[k - 1]!.t_raw, `${fact.t_raw} after ${got[k - 1]?.t_raw}`)
        assert.ok(fact.t_raw > began - 3000 && fact.t_raw < trueTime() + 3000, new Date(fact.t_raw).toISOString())
      })
    })
  },
  { memory: 1024, seconds: 400 },
)
