// Which core is faster on this processor for what a gateway does: frames of an uplink, 16 at a time, of four readings that all changed; and the
// checksums of 16 packets of one delivery frame, with the copy they need. Bounded by rounds and time. No errors.
import { systemClock } from '../lib/clock'
import type { Fact } from '../pipeline/fact'
import { plainFrame } from '../pipeline/receive'
import { UplinkEncoder } from '../pipeline/sender'
import { PacketSlab } from '../pipeline/slab'
import { createPacketSums } from './checks'
import { nativeModule } from './native'
import { NativeBatch } from './stage'

/** ns per packet */
export interface Speeds {
  readonly pycore: number
  readonly rscore: number
}

export interface Measured {
  readonly uplinks: Speeds
  readonly receivers: Speeds
}

const PACKETS = 16
const READINGS = ['a', 'b', 'c', 'd']
const MOST_ROUNDS = 300
/** with fewer, V8 has not optimized the pure core */
const LEAST_ROUNDS = 50
const BUDGET_MS = 15

/** The best of several rounds in which the cores take turns; null without WebAssembly, or where too few rounds fit the time. */
export function measureCores(leastRounds = LEAST_ROUNDS, now: () => number = systemClock.mono): Measured | null {
  const began = now()
  const [module, sums] = [nativeModule(), createPacketSums()]
  if (!module || !sums) return null
  const slab = new PacketSlab()
  const batch = new NativeBatch(module, slab)
  const encoder = new UplinkEncoder({ aid: 1, slab })
  const sensors = READINGS.map((id, k) => ({ id, status: 'OK', unit: 'K', value: 280 + k }))
  const fact: Fact = { id: 'D', state: 'ONLINE', aid: 1, tRaw: 0, sensors }
  const next = (): Fact => {
    fact.tRaw++
    for (const sensor of sensors) sensor.value += 0.1
    return fact
  }
  const single = (): Buffer[] => {
    const frames: Buffer[] = []
    for (let k = 0; k < PACKETS; k++) frames.push(encoder.encode(next()).bytes)
    return frames
  }
  const staged = (): Buffer[] => {
    for (let k = 0; k < PACKETS; k++) encoder.stage(next(), 0xffff, batch)
    return batch.take()
  }
  const packets = single()
  const frame = Buffer.concat(packets.flatMap(packet => [Buffer.of(packet.length >> 8, packet.length), packet]))
  const works = [
    single,
    staged,
    () => packets.every(packet => plainFrame(packet, 0, packet.length)),
    () => sums(frame, 0, PACKETS),
  ]
  const best = works.map(() => Number.POSITIVE_INFINITY)
  for (let round = 0; round < MOST_ROUNDS; round++)
    for (const [k, work] of works.entries()) {
      const from = now()
      if (from - began >= BUDGET_MS) return round < leastRounds ? null : result(best)
      work()
      best[k] = Math.min(best[k]!, now() - from)
    }
  return result(best)
}

function result(best: readonly number[]): Measured {
  const [a, b, c, d] = best.map(ms => Math.round((ms * 1e6) / PACKETS)) as [number, number, number, number]
  return { uplinks: { pycore: a, rscore: b }, receivers: { pycore: c, rscore: d } }
}
