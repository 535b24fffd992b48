// Two gateways with a radio each, hours of traffic on an air in memory: uplink, delivery exchange, key frame plan, channel,
// duty cycle and chip together. Neither ever exceeds its duty cycle, whatever happens; alarms are sent first.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createLora } from '../../../../drivers/lora'
import { alarmCheck } from '../../../../src/gateway/uplink/alarms'
import { silentLogger } from '../../../../src/lib/logger'
import { COMMAND } from '../../../../src/wire/commands'
import { prng } from '../../../lib/random'
import { UplinkWorld } from '../../../lib/uplinkworld'
import { FakeAir, FakeChip, mostSent, type OnAir } from './fake'

const HOUR_MS = 3_600_000
/** 1 % of an hour */
const BUDGET_MS = 36_000
let pairs = 0

const world = async (t: TestContext) => {
  const w = new UplinkWorld()
  t.after(() => w.end())
  w.log.isAlarm = alarmCheck(['ALARM'])
  const air = new FakeAir(w.timers)
  const context = { clock: w.clock, logger: silentLogger }
  const radio = (mode: 'send' | 'listen') => {
    const chip = new FakeChip(air)
    const more = { hardware: chip, timers: w.timers, random: prng(++pairs), budgets: new Map() }
    // the standard channel of Europe: 1 %
    const options = { mode, spi: `/dev/pair${pairs}`, dio0_pin: 'GPIO25', check_interval_ms: 60_000 }
    return { chip, build: () => createLora('radio', options, context, more) }
  }
  const near = radio('send')
  const far = radio('listen')
  const upstream = far.build()
  upstream.onPacket((packet, origin) => void w.receive.packet(packet, origin))
  const opened = upstream.open({ lost: () => undefined, degraded: () => undefined })
  await w.run(200)
  await opened
  t.after(async () => {
    const closed = upstream.close()
    await w.run(100)
    await closed
  })
  await w.apply({ name: 'radio', medium: 'LORA', build: near.build })
  /** `devices`: readings of so many relayed devices in turn; 0: of the gateway itself */
  const run = async (ms: number, everyMs = 0, devices = 0): Promise<void> => {
    if (everyMs === 0) return w.run(ms, 200)
    for (let at = 0; at < ms; at += everyMs) {
      w.fact(devices === 0 ? undefined : 100 + ((at / everyMs) % devices))
      await w.run(everyMs, 200)
    }
  }
  const within = (): void => {
    for (const { chip } of [near, far]) {
      const worst = mostSent(chip.sent, HOUR_MS)
      assert.ok(worst <= BUDGET_MS, `${worst} ms in an hour`)
    }
  }
  const state = (): string =>
    JSON.stringify({ uplinks: w.uplinks.list.map(uplink => uplink.status()), sent: near.chip.sent.length })
  return { w, air, near: near.chip, far: far.chip, run, within, state }
}

/** It contains a FULL, alone or in a frame of the delivery exchange. */
const isFull = ({ payload }: OnAir): boolean => Buffer.from(payload).includes(Buffer.of(COMMAND.DATA_FULL, 1, 0, 0, 0))
const total = (sent: readonly OnAir[]): number => sent.reduce((sum, { from, to }) => sum + to - from, 0)

test('R18: light traffic for three hours: everything arrives, and nothing waits for the budget', async t => {
  const { w, near, far, run, within, state } = await world(t)
  await run(3 * HOUR_MS, 60_000)
  await run(60_000)
  assert.deepEqual(w.arrived, w.logged, state())
  within()
  t.diagnostic(
    `gateway ${Math.round(total(near.sent) / 3)} ms an hour in ${near.sent.length} packets, upstream ${Math.round(total(far.sent) / 3)}`,
  )
  assert.ok(total(near.sent) / 3 < BUDGET_MS / 4)
})

test('R18: more readings than the duty cycle allows, then an outage of two hours: the duty cycle is kept, alarms are sent first', async t => {
  const { w, air, near, run, within, state } = await world(t)
  await run(HOUR_MS, 4000, 12)
  within()
  const full = total(near.sent.filter(isFull))
  t.diagnostic(`key frames take ${Math.round(full)} of ${Math.round(total(near.sent))} ms of the first hour`)
  assert.ok(full > 0 && full <= 0.25 * BUDGET_MS)
  const readings = w.got.facts.length
  assert.ok(readings > 200, state())
  air.lose = () => true
  const away = near.sent.length
  await run(2 * HOUR_MS, 20_000)
  within()
  const probing = near.sent.slice(away).filter(({ from }) => from > near.sent[away]!.from + HOUR_MS)
  assert.ok(total(probing) <= BUDGET_MS / 4, `${total(probing)} ms of probes in an hour`)
  air.lose = () => false
  await run(HOUR_MS / 2, 20_000)
  within()
  const alarm = w.fact(undefined, 'ALARM')
  const backlog = w.log.facts.length - w.got.facts.length
  assert.ok(backlog > 100, `${backlog} wait`)
  const raised = w.clock.mono()
  while (!w.got.facts.some(({ tRaw }) => tRaw === alarm.tRaw) && w.clock.mono() < raised + 120_000) await w.run(500, 50)
  const after = w.clock.mono() - raised
  assert.ok(after < 60_000, `the alarm took ${after} ms; ${state()}`)
  t.diagnostic(`alarm after ${after} ms, ${backlog} readings behind it`)
  for (let hours = 0; w.got.facts.length < w.log.facts.length && hours < 12; hours++) await run(HOUR_MS)
  within()
  assert.deepEqual(w.arrived, w.logged, state())
})
