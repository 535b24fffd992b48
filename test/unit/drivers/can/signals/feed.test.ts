// A trace of a source `can`, compared with feed-trace.txt: what it reads, counts and reports of random frames, of one station or of
// two, in one frame or in many, while the bus has errors and frames are lost.
import { test } from 'node:test'
import { canSourceOptions } from '../../../../../drivers/can/signals/signal-options'
import { CanSource } from '../../../../../drivers/can/signals/signal-source'
import type { OsError } from '../../../../../src/lib/errors'
import { silentLogger } from '../../../../../src/lib/logger'
import { checkOptions } from '../../../../../src/links/driver-options'
import { CAN_EFF, CAN_ERR, CAN_RTR } from '../../../../../src/native/can'
import { ManualClock, ManualTimers } from '../../../../lib/manual'
import { dice, digest, Trace } from '../../../../lib/trace'
import { Bus, DBC } from './fake-bus'

/** a message of 20 bytes, and of one group from two stations */
const MORE = `BO_ 2566844414 Long: 20 Engine
 SG_ First : 0|16@1+ (1,0) [0|0] "" X
 SG_ Tail : 152|8@1+ (1,0) [0|100] "V" X
BO_ 2364539923 EEC2: 8 Engine
 SG_ Load : 8|8@1+ (1,-125) [-125|125] "%" X
BO_ 2364540951 EEC1b: 8 Other
 SG_ Torque : 8|8@1+ (1,-125) [-125|125] "%" X
BO_ 2147483948 Ext: 8 Engine
 SG_ Odd : 8|8@1- (1,0) [0|0] "V" X
BO_ 500 Wide: 64 Engine
 SG_ Far : 500|8@1+ (1,0) [0|0] "" X
BA_ "VFrameFormat" BO_ 2566844414 3;
BA_ "VFrameFormat" BO_ 2364539923 3;
BA_ "VFrameFormat" BO_ 2364540951 3;
`
const ALL = { match: ['*'], max_age_ms: 5000 }
const SOURCES = [
  ALL,
  { ...ALL, source_address: 0, check_range: false, receive_buffer_bytes: 20_000_000 },
  { match: ['Basics.*', 'Wide.*'], fd: true, value_words: true, channels: { Steps: { id: 'x', unit: 'K', scale: 2 } } },
  { match: ['Mux.*', 'DM1.*'], max_age_ms: 1000, interval_ms: 10 },
]

test('a source over a bus in memory behaves as feed-trace.txt has it', async () => {
  const trace = new Trace('unit/drivers/can/signals/feed-trace.txt')
  const { below, chance, pick } = dice(97)
  const hex = (size: number): string =>
    Buffer.from(Array.from({ length: size }, () => pick([0, 1, 2, 255, below(256)]))).toString('hex')
  for (const [round, options] of SOURCES.entries()) {
    const clock = new ManualClock()
    const timers = new ManualTimers(clock)
    const bus = new Bus()
    const said: unknown[] = []
    const say =
      (...what: unknown[]) =>
      (value: unknown): void =>
        void said.push([...what, value])
    const failed = ({ code, message, hint }: OsError): void => void said.push([code, message, hint])
    let text = DBC.replace('BA_DEF_', `${MORE.slice(0, MORE.indexOf('BA_'))}BA_DEF_`) + MORE.slice(MORE.indexOf('BA_'))
    let trouble: string | undefined
    const files = {
      size: () => text.length,
      read: () => {
        if (trouble) throw Object.assign(new Error(trouble), { code: trouble })
        return Buffer.from(text)
      },
    }
    const raw = checkOptions(canSourceOptions, { interface: 'can0', dbc: '/x.dbc', ...options }, 'x')
    const source = new CanSource(
      'x',
      raw,
      { clock, logger: { ...silentLogger, warn: say('warn') } },
      { files, ports: bus, timers },
    )
    let open = false
    const events = {
      lost: (why: string) => {
        open = false
        said.push(`lost: ${why}`)
      },
      degraded: say('degraded'),
    }
    /** announced, then its pieces: in order, some repeated, missing or misnumbered */
    const long = (station: number): [number, string][] => {
      const to = pick([0xff, 0xff, 0x21])
      const size = pick([20, 20, 16, 8, 9])
      const pgn = pick([0xfeff, 0xfeff, 0xfeca, 0xfe00 | below(256)])
      const [low, mid, high] = [pgn & 255, pgn >> 8, 0]
      const packets = chance(0.9) ? Math.ceil(size / 7) : below(5)
      const head = Buffer.of(pick([16, 32, 32, 19]), size, 0, packets, 255, low, mid, high).toString('hex')
      const control = CAN_EFF + 0x18ec0000 + (to << 8) + station
      const frames: [number, string][] = [[control, chance(0.95) ? head : head.slice(4)]]
      for (let k = 1; k <= Math.ceil(size / 7); k++) {
        if (chance(0.05)) continue
        const number = chance(0.05) ? below(6) : k
        const piece: [number, string] = [control - 0x10000, Buffer.of(number).toString('hex') + hex(7)]
        frames.push(piece, ...(chance(0.05) ? [piece] : []))
      }
      if (chance(0.1)) frames.splice(2, 0, [control, `ffffffffff${head.slice(10)}`])
      return frames
    }
    await trace.steps(`${round}`, 400, 20, async k => {
      trouble = chance(0.05) ? pick(['ENOENT', 'EACCES']) : undefined
      if (chance(open ? 0.02 : 0.6)) {
        bus.fail(0)
        bus.change({ up: true, state: 'error-active', fd: true })
        bus.granted = pick([1 << 20, 40_000_000])
        const opening = source.open(events)
        if (chance(0.05)) void source.close()
        open = true
        await opening.catch(error => {
          open = false
          failed(error)
        })
        said.push(bus.opened)
      } else if (chance(0.01)) {
        open = false
        await source.close()
      }
      if (open) {
        for (let n = below(5); n > 0; n--)
          bus.arrive([
            pick([291, 300, 500, CAN_EFF + 300, 291 + CAN_RTR, 300 + CAN_ERR, 301]),
            hex(pick([8, 8, 8, 4, 64])),
          ])
        const station = pick([0, 0, 0x17, 0x21])
        for (const group of [0x0cf004fe, 0x18feca00, 0x0cf00300])
          if (chance(0.2)) bus.arrive([CAN_EFF + (group & 0x1fffff00) + station, hex(8)])
        for (let n = below(3); n > 0; n--) {
          const frames = long(pick([0, 0x17, 0x21]))
          const cut = chance(0.1) ? below(frames.length) : frames.length
          bus.arrive(...frames.slice(0, cut))
          if (chance(0.1)) await timers.advance(pick([1249, 1250, 1251]))
          bus.arrive(...frames.slice(cut))
        }
        if (k % 50 === 30) for (let n = 0; n < 40; n++) bus.arrive([CAN_EFF + 0x18ecff00 + n, '20140003fffffe00'])
        if (chance(0.05)) bus.dropped += below(9)
        if (chance(0.02)) bus.fail(pick([-100, -19, -5]))
        if (chance(0.05)) bus.change({ up: chance(0.8), state: pick(['error-active', 'error-passive', 'bus-off']) })
      }
      if (open && chance(0.05)) void source.readRaw().then(say('raw'), failed)
      if (chance(0.6)) await source.read().then(say('read'), failed)
      if (k === 380) text = 'x'.repeat(50) + text
      await timers.advance(pick([0, 10, 300, 999, 1000, 5000, chance(0.1) ? 60_001 : 0]))
      const { detail, ...counters } = source.counters
      const seen = digest(0, Buffer.from(JSON.stringify([said.splice(0), whyNot(source)])))
      return [seen, counters, detail, bus.closed, clock.mono()]
    })
  }
  trace.compare()
})

const whyNot = (source: CanSource): unknown[] => ['Coolant', 'Tail', 'none'].map(id => source.whyNot(id) ?? null)
