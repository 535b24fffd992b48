// A trace of radios that share an air, compared with medium-trace.txt: every transfer on their buses, what they receive,
// count and report, while chips fail, channels are busy and budgets run out.
import { test } from 'node:test'
import { createLora } from '../../../../drivers/lora'
import type { Logger } from '../../../../src/lib/logger'
import { DELIVERY_FRAME } from '../../../../src/protocol/control'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { prng } from '../../../lib/random'
import { dice, digest, Trace } from '../../../lib/trace'
import { FakeAir, FakeChip } from './fake'

const WORLDS = [
  [{ region: 'EU868' }, {}],
  [{ region: 'none', dio0_pin: undefined }, { reset_pin: undefined }],
  [
    { region: 'EU868', frequency_hz: 869_525_000, implicit_bytes: 60, spreading_factor: 6 },
    { listen_before_talk: false },
  ],
  [
    { region: 'none', frequency_hz: 433_500_000, lna_gain: 3, crc: false },
    { check_interval_ms: 100, deaf_after_s: 1 },
  ],
  [{ region: 'EU868', spreading_factor: 12, invert_iq: true }, { spreading_factor: 11 }],
  [
    { region: 'none', lna_boost: false, deaf_after_s: 2 },
    { max_packet: 40, check_interval_ms: 500 },
  ],
]
const FIRST = [0x3f, DELIVERY_FRAME, ...Object.values(COMMAND)]

test('radios that share an air behave as medium-trace.txt has it', async () => {
  const trace = new Trace('unit/drivers/lora/medium-trace.txt')
  const { below, chance, pick } = dice(53)
  for (const [w, [options, more]] of WORLDS.entries()) {
    const timers = new ManualTimers(new ManualClock())
    const { clock } = timers
    const air = new FakeAir(timers)
    const said: unknown[] = []
    const logger = {
      debug: note('debug'),
      info: note('info'),
      warn: note('warn'),
      error: note('error'),
    } as unknown as Logger
    function note(...who: unknown[]) {
      return (text: unknown): void => void said.push([...who, text])
    }
    const stations = [options, { ...options, ...more }].map((given, k) => {
      const chip = new FakeChip(air)
      let bus = 0
      const openSpi = chip.openSpi.bind(chip)
      chip.openSpi = async () => {
        const spi = await openSpi()
        return {
          close: () => spi.close(),
          transfer: async (tx, rx, ms) => {
            bus = digest(bus, tx, ms)
            await spi.transfer(tx, rx, ms)
            if (rx) bus = digest(bus, rx)
          },
        }
      }
      const all = { spi: `/dev/course${w}${k}`, dio0_pin: 'GPIO25', reset_pin: 'GPIO22', ...given }
      const parts = { hardware: chip, timers, random: prng(w + k), budgets: new Map() }
      const medium = createLora('radio', all, { clock, logger }, parts)
      medium.onPacket((packet, { address, rssi, snr, reply }) => {
        said.push([k, packet.length, digest(0, packet), address, rssi, snr])
        if (packet[1] === 7) throw new Error('not handled')
        if (packet[1] === 8) void reply(Uint8Array.of(COMMAND.PONG, 0, 9)).then(note(k, 'replied'))
      })
      const events = { lost: note(k, 'lost'), degraded: note(k, 'degraded') }
      return { k, chip, medium, bus: () => bus, open: () => void medium.open(events).then(note(k, 'open'), note(k)) }
    })
    for (const { open } of stations) open()
    await trace.steps(`world ${w}`, 90, 6, async step => {
      for (const { k, chip, medium, open } of stations) {
        const size = pick([1, 3, 13, 40, 41, 59, 60, 255, 256])
        const packet = Uint8Array.from({ length: size }, (_, at) =>
          at === 0 ? pick(FIRST) : at < 3 ? below(9) * below(2) : at,
        )
        if (chance(0.4)) void medium.send(packet).then(note(k, 'sent', step))
        if (step % 40 === 20) for (let n = 0; n < 20; n++) void medium.send(packet).then(note(k, 'sent', n))
        if (chance(0.2)) said.push([medium.airtime!.of(size), medium.airtime!.waitMs(size, chance(0.5))])
        if (chance(0.05)) open()
        if (chance(0.02)) void medium.close().then(note(k, 'closed'))
        if (chance(0.1)) chip.hear(packet.subarray(0, 60), chance(0.3))
        if (!chance(0.08)) continue
        const reg = pick([1, 6, 7, 0x0f, 0x1d, 0x1e, 0x26, 0x33, 0x40])
        pick([
          () => (chip.failing = 1 + below(3)),
          () => (chip.deaf = chance(0.5)),
          () => (chip.jammed = true),
          () => (chip.stuck = pick([0, 0x40])),
          () => (chip.version = pick([-1, 0, 0x33])),
          () => (chip.calibratesForEver = chance(0.3)),
          () => (chip.unwired = chance(0.5)),
          () => (chip.reg[reg]! ^= 1 << below(8)),
          () => chip.powerUp(),
        ])()
      }
      if (step === 45) for (const { chip } of stations) chip.quiet = () => 40
      await timers.advance(pick([4, 30, 120, 500, 2500]))
      const states = stations.map(({ bus, medium, chip }) => [bus(), medium.counters, chip.resets, chip.pins])
      return [digest(0, Buffer.from(JSON.stringify([said.splice(0), states]))), clock.mono(), air.sent.length]
    })
    for (const { medium } of stations) void medium.close()
    await timers.advance(2000)
    trace.say(
      'closed',
      stations.map(({ bus, medium: { counters, maxPacket, airtime }, chip }) => [
        bus(),
        counters,
        maxPacket,
        airtime?.share,
        chip.openSpis,
        chip.pins,
      ]),
    )
  }
  trace.compare()
})
