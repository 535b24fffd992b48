// A trace of sources that share a port, compared with shared-trace.txt: what they read, when they request it, what they count
// and report, while slaves are late, damaged or silent, and the port vanishes and returns.
import { test } from 'node:test'
import { ModbusBus } from '../../../../drivers/modbus/bus'
import { frameRtu } from '../../../../drivers/modbus/codec'
import { slaveSource } from '../../../../drivers/modbus/index'
import { rtuSchema } from '../../../../drivers/modbus/modbus-options'
import { RtuTransport } from '../../../../drivers/modbus/rtu'
import { Membership } from '../../../../drivers/modbus/shared'
import { TYPES, WORD_ORDERS } from '../../../../drivers/modbus/values'
import { OsError } from '../../../../src/lib/errors'
import type { Line, OpenableEvents } from '../../../../src/links/contracts'
import { checkOptions } from '../../../../src/links/driver-options'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'

test('four sources that share a port behave as shared-trace.txt has it', async () => {
  const trace = new Trace('unit/drivers/modbus/shared-trace.txt')
  const { below, chance, pick } = dice(61)
  for (let round = 0; round < 4; round++) {
    const clock = new ManualClock()
    const timers = new ManualTimers(clock)
    const said: unknown[] = []
    const note = (...who: unknown[]): [(value: unknown) => void, (error: OsError) => void] => [
      (value: unknown) => void said.push([...who, value, clock.mono()]),
      (error: OsError) => void said.push([...who, error.code, error.message, error.hint, clock.mono()]),
    ]
    let wires = 0
    let silent = 0
    let refuses = false
    let slow = false
    const heard: ((chunk: Uint8Array) => void)[] = []
    const damage: ((byte: number) => void)[] = []
    const events: OpenableEvents[] = []
    const returned: (() => void)[] = []
    const later = (): Promise<void> =>
      slow ? new Promise(resolve => void timers.after(40, resolve)) : Promise.resolve()
    /**
     * How a slave answers a request: registers in order, coils, exceptions, noise, an answer that is damaged, truncated or
     * late.
     */
    const answer = (frame: Uint8Array): readonly [Uint8Array, number] => {
      const [unit, fn, high, low, , count] = frame as unknown as number[]
      const bits = fn! < 3
      const size = bits ? Math.ceil(count! / 8) : count! * 2
      const data = Uint8Array.from({ length: size }, (_, k) => (low! * 7 + k * 37 + unit! + high!) & 255)
      const body = chance(0.07)
        ? Uint8Array.of(fn! | 0x80, pick([1, 2, 3, 4, 6, 10, 11]))
        : Uint8Array.of(fn!, size, ...data)
      let bytes: Uint8Array = frameRtu(chance(0.03) ? 9 : unit!, body)
      if (chance(0.08)) bytes[below(bytes.length)]! ^= 1 << below(8)
      if (chance(0.05)) bytes = bytes.subarray(0, below(bytes.length))
      if (chance(0.1)) bytes = Uint8Array.of(...frame.subarray(0, chance(0.5) ? 8 : 3), ...bytes)
      if (chance(0.02)) bytes = Uint8Array.of(...new Uint8Array(pick([250, 509, 512, 700])).fill(0x55), ...bytes)
      return [bytes, pick([1, 20, 20, 90, 100, 130])]
    }
    const make = (): ModbusBus => {
      const at = wires++
      const line: Line = {
        ...{ name: `wire ${at}`, counters: { rx: 0, tx: 0, errors: 0 } },
        open: async given => {
          said.push(['opens', at])
          await later()
          if (refuses) throw new OsError('NOT_FOUND', 'no port')
          events[at] = given
        },
        close: async () => {
          said.push(['closes', at])
          await later()
          if (refuses) throw new OsError('LINK_DOWN', 'no end')
        },
        onData: (handler, damaged) => {
          heard[at] = handler
          damage[at] = damaged!
        },
        onReturn: back => {
          returned[at] = back
          return () => said.push(['no return', at])
        },
        write: async frame => {
          said.push([clock.mono(), Buffer.from(frame).toString('hex')])
          if (chance(0.01)) throw new OsError('LINK_DOWN', 'no wire')
          if (frame[0] === silent) return
          const [bytes, afterMs] = answer(frame)
          const cut = chance(0.3) ? below(bytes.length) : bytes.length
          timers.after(afterMs, () => heard[at]!(bytes.subarray(0, cut)))
          if (chance(0.04)) timers.after(afterMs + 1, () => damage[at]!(0))
          if (cut < bytes.length) timers.after(afterMs + 3, () => heard[at]!(bytes.subarray(cut)))
        },
      }
      const speed = { baudrate: pick([9600, 19_200, 115_200]), characterMs: 1.1, minSilenceMs: pick([0, 9]) }
      return new ModbusBus(new RtuTransport(line, { ...speed, clock, timers }), clock)
    }
    const sources = [1, 2, 3, 4].map(slave => {
      const registers = Array.from({ length: 1 + below(9) }, (_, k) => {
        const type = pick(TYPES)
        const place = {
          address: 1 + pick([below(9), below(60), 400]),
          table: pick(['holding', 'input', 'coil', 'discrete']),
        }
        return { ...place, id: `r${k}`, type, word_order: pick(WORD_ORDERS), ...(type === 'bit' && { bit: below(16) }) }
      })
      const raw = {
        port: 'x',
        slave,
        registers,
        timeout_ms: 100,
        gap: pick([0, 5]),
        retries: below(3),
        address_base: below(2),
      }
      const bus = new Membership(`course ${round}`, { of: round === 3 ? slave >> 1 : 0 }, make)
      return slaveSource('modbus_rtu', `s${slave}`, slave, checkOptions(rtuSchema, raw, 'x') as never, 500, bus)
    })
    const opened = new Set<number>()
    await trace.steps(`${round}`, 160, 8, async k => {
      slow = chance(0.2)
      refuses = chance(0.04)
      if (chance(0.1)) silent = below(5)
      const at = below(4)
      const source = sources[at]!
      const both = note(k, at)
      if (chance(opened.has(at) ? 0.03 : 0.5)) {
        opened.add(at)
        const lost = (why: string): void => {
          opened.delete(at)
          both[0](`lost: ${why}`)
        }
        void source.open({ lost, degraded: both[0] }).then(...both)
      } else if (chance(0.05)) {
        opened.delete(at)
        void source.close().then(...both)
      }
      for (const one of sources) if (chance(0.4)) void one.read().then(...both)
      if (chance(0.05)) void source.readRaw!().then(...both)
      const wire = below(wires)
      if (chance(0.02)) events[wire]?.lost(`lost ${k}`)
      if (chance(0.03)) events[wire]?.degraded(pick(['', `weak ${k}`]))
      if (chance(0.03)) heard[wire]?.(Uint8Array.of(1, 2, 3))
      if (chance(0.1)) {
        const end = source.onReturn!(() => both[0]('back'))
        if (chance(0.8)) returned[wire]?.()
        if (chance(0.8)) end()
      }
      await timers.advance(pick([0, 5, 99, 100, 300, 1000, 2000, 4100]))
      const counters = sources.map(one => [one.counters, one.whyNot!('r0')])
      return [
        digest(0, Buffer.from(JSON.stringify([said.splice(0), counters]))),
        clock.mono(),
        timers.armed,
        timers.pending,
      ]
    })
    trace.say(
      'ends',
      sources.map(({ counters }) => counters),
    )
    for (const source of sources) void source.close().then(...note('closed'))
    await timers.advance(5000)
    trace.say('closed', said)
  }
  trace.compare()
})
