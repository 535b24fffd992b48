// The transfers of one chip, one after the other: a bus error at any of them ends the running operation immediately.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LoraChip } from '../../../../drivers/lora/chip'
import { loraOptions } from '../../../../drivers/lora/lora-options'
import { modemOf } from '../../../../drivers/lora/modem'
import { IRQ } from '../../../../drivers/lora/registers'
import { checkOptions } from '../../../../src/links/driver-options'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { FakeAir, FakeChip } from './fake'

const options = { region: 'none', frequency_hz: 868_100_000, bandwidth_khz: 20.8 }
const modem = modemOf(checkOptions(loraOptions, options, 'radio') as never)

/** A chip that is set up; the transfer `failAt` from now on fails, and no other may start before one has ended. */
async function world() {
  const timers = new ManualTimers(new ManualClock())
  const bus = { failAt: 0, begun: 0, busy: false }
  const fake = new FakeChip(new FakeAir(timers))
  const spi = await fake.openSpi()
  const chip = new LoraChip(
    {
      transfer: async (tx, rx, deadlineMs) => {
        assert.ok(!bus.busy, 'the transfer before has not ended')
        bus.busy = true
        const mine = ++bus.begun
        await undefined
        bus.busy = false
        if (mine === bus.failAt) throw new Error(`transfer ${mine}`)
        await spi.transfer(tx, rx, deadlineMs)
      },
      close: () => undefined,
    },
    modem,
  )
  const sleep = async (ms: number) => timers.clock.advance(ms)
  await chip.setUp(sleep)
  return { chip, bus, fake, sleep }
}

test('a bus error at any transfer ends the operation with that error, and no transfer follows', async () => {
  const steps: Record<string, (chip: LoraChip, sleep: (ms: number) => Promise<void>) => Promise<unknown>> = {
    setUp: (chip, sleep) => chip.setUp(sleep),
    receive: chip => chip.receive(),
    standby: chip => chip.standby(),
    startCad: chip => chip.startCad(),
    load: chip => chip.load(Uint8Array.of(1, 2, 3)),
    transmit: chip => chip.transmit(),
    clear: chip => chip.clear(IRQ.RX_DONE),
    receiving: chip => chip.receiving(),
    take: chip => chip.take(0),
    noiseAtLeastGain: (chip, sleep) => chip.noiseAtLeastGain(sleep),
    verify: chip => chip.receive().then(() => chip.verify()),
    sleep: chip => chip.sleep(),
  }
  for (const [name, step] of Object.entries(steps)) {
    const whole = await world()
    whole.bus.begun = 0
    if (name === 'take') whole.fake.reg[0x13] = 3
    await step(whole.chip, whole.sleep)
    const count = whole.bus.begun
    assert.ok(count > 0, name)
    for (let k = 1; k <= count; k++) {
      const { chip, bus, fake, sleep } = await world()
      if (name === 'take') fake.reg[0x13] = 3
      Object.assign(bus, { begun: 0, failAt: k })
      await assert.rejects(step(chip, sleep), { message: `transfer ${k}` }, `${name} ${k}`)
      await new Promise(setImmediate)
      assert.equal(bus.begun, k, name)
    }
  }
})
