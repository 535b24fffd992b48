// compare: the same readings through every core that is built in; rates side by side, and whether the bytes are the same (D12:
// both cores give identical bytes for every input). With one core there is nothing to compare, and it says so.
import { breathe } from './checks'
import { type CoreTable, coreMaker, namesOf, ucum, whyMissing } from './cores'
import { counted, createNativeChecks, Receiver } from './program'
import { Histogram } from './stress/histogram'
import { isSame, type Row, ringOf } from './stress/readings'

/** µs of one packet; of a batch, or of frames decoded together, the mean of its packets */
interface Latency {
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

interface CoreRates {
  readonly name: string
  /** packets a second, best of several windows */
  readonly full_pps: number
  readonly diff_pps: number
  readonly heart_pps: number
  /** DIFFs made in batches of 256 */
  readonly batch_pps: number
  /** DIFFs decoded 256 at a time, their sums done by the native core for rscore */
  readonly decode_pps: number
  readonly latency_us: Readonly<Record<'full' | 'diff' | 'heart' | 'batch' | 'decode', Latency>>
}

export interface Comparison {
  readonly ok: boolean
  readonly cores: readonly CoreRates[]
  readonly packets_compared: number
  /** null: there is one core only */
  readonly equal: boolean | null
  /** at most ten */
  readonly differences: readonly { core: string; packet: number; hex: string; reference: string }[]
  /** packets whose values came back otherwise */
  readonly wrong: number
  readonly note: string
}

const DEVICES = 4
const ROUNDS = 256
const BATCH = 256
const WINDOWS = 3
/** measurements of each core */
const PARTS = 5
const WINDOW_MS = 60
const AID = 0x00c0_ffee
const T0 = 1_710_000_000_000
const MOST_DIFFERENCES = 10

const rings = (precision: number): (readonly Row[])[] =>
  Array.from({ length: DEVICES }, (_, device) => ringOf(device, precision))

/** Every kind of packet: first FULLs, DIFFs, HEARTs where nothing changed, and refused rows between. */
function packetsOf(make: CoreTable[string], precision: number): { packet: Buffer; row: Row }[] {
  const core = make({ precision })
  const all = rings(precision)
  const rows = Array.from({ length: DEVICES * ROUNDS }, (_, n) => {
    const device = n % DEVICES
    const round = Math.floor(n / DEVICES)
    const ring = all[device]!
    // every fourth round repeats the one before
    const row = ring[(round % 4 === 3 ? round - 1 : round) % ring.length]!
    const strategy = round === 0 || round % 50 === 49 ? 'FULL' : 'DIFF'
    const readings = round % 10 === 9 ? [...row.readings, ['X', 'OK', Number.NaN, 'Pa'] as const] : row.readings
    core.stage(readings, `compare-${device}`, 'ONLINE', T0 + n, AID, strategy)
    return row
  })
  return core.take().map((packet, n) => ({ packet, row: rows[n]! }))
}

/** Packets a second: best of several short windows, so that a neighbour on the machine counts less; a call makes `per` of them. Then how
 *  long a packet took, over one window more. */
async function rateOf(run: (n: number) => void, per = 1): Promise<{ pps: number; latency: Latency }> {
  const calls = Math.max(1, 256 / per)
  for (let n = 0; n < 2000 / per; n++) run(n)
  let best = 0
  for (let window = 0; window < WINDOWS; window++) {
    await breathe()
    const start = performance.now()
    let done = 0
    let now = start
    while (now - start < WINDOW_MS) {
      for (let k = 0; k < calls; k++) run(done++)
      now = performance.now()
    }
    best = Math.max(best, ((done * per) / (now - start)) * 1000)
  }
  await breathe()
  const times = new Histogram()
  const start = performance.now()
  for (let n = 0, from = start; from - start < WINDOW_MS; n++) {
    run(n)
    const now = performance.now()
    times.add((now - from) / per)
    from = now
  }
  const us = (ms: number): number => Math.round(ms * 1e6) / 1000
  const at = (share: number): number => us(times.percentile(share))
  return { pps: Math.round(best), latency: { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: us(times.max) } }
}

/** A pass of frames through a receiver that is new to them, one batch a call. */
function decoder(make: CoreTable[string], name: string, precision: number): (n: number) => void {
  const ring = ringOf(0, precision)
  const core = make({ precision })
  const batches = Array.from({ length: 16 }, (_, batch) => {
    const packets = Array.from({ length: BATCH }, (_, k) => {
      const n = batch * BATCH + k
      const strategy = n === 0 ? 'FULL' : 'DIFF'
      return Buffer.from(core.transmitFast(ring[n % ring.length]!.readings, 'rate', 'ONLINE', T0 + n, AID, strategy))
    })
    let end = 0
    return { bytes: Buffer.concat(packets), ends: Int32Array.from(packets, packet => (end += packet.length)) }
  })
  const checks = name === 'rscore' ? createNativeChecks() : null
  const sink = { fact: () => undefined, other: () => undefined }
  let receiver: Receiver
  return n => {
    const { bytes, ends } = batches[n % batches.length]!
    if (n % batches.length === 0) receiver = new Receiver({ units: ucum, precision, ...(checks && { checks }) })
    receiver.receiveBatch(bytes, ends, BATCH, sink)
  }
}

async function ratesOf(name: string, make: CoreTable[string], precision: number, tell: () => void): Promise<CoreRates> {
  const ring = ringOf(0, precision)
  const at = (n: number): Row => ring[n % ring.length]!
  const sender = (row: (n: number) => Row, strategy: 'FULL' | 'DIFF') => {
    const core = make({ precision })
    let t = T0
    core.transmitFast(row(ring.length - 1).readings, 'rate', 'ONLINE', t++, AID, 'FULL')
    return (n: number): void => void core.transmitFast(row(n).readings, 'rate', 'ONLINE', t++, AID, strategy)
  }
  const batches = make({ precision })
  let t = T0
  const batch = (n: number): void => {
    for (let k = 0; k < BATCH; k++) batches.stage(at(n + k).readings, 'rate', 'ONLINE', t++, AID, 'DIFF')
    batches.take()
  }
  const measured = async (run: (n: number) => void, per?: number) => {
    const rate = await rateOf(run, per)
    tell()
    return rate
  }
  const full = await measured(sender(at, 'FULL'))
  const diff = await measured(sender(at, 'DIFF'))
  const heart = await measured(sender(() => at(0), 'DIFF'))
  const made = await measured(batch, BATCH)
  const decoded = await measured(decoder(make, name, precision), BATCH)
  return {
    name,
    full_pps: full.pps,
    diff_pps: diff.pps,
    heart_pps: heart.pps,
    batch_pps: made.pps,
    decode_pps: decoded.pps,
    latency_us: {
      full: full.latency,
      diff: diff.latency,
      heart: heart.latency,
      batch: made.latency,
      decode: decoded.latency,
    },
  }
}

/** Tells how many of how many measurements are done. */
export type CompareProgress = (done: number, of: number) => void

/** Throws nothing for differences: they are the result. */
export async function compareCores(
  cores: CoreTable,
  precision = 4,
  onProgress: CompareProgress = () => undefined,
): Promise<Comparison> {
  const names = Object.keys(cores)
  let done = 0
  const tell = (): void => onProgress(++done, PARTS * names.length)
  const reference = packetsOf(coreMaker(cores, names[0]!), precision)
  const receiver = new Receiver({ units: ucum, precision })
  const wrong = reference.filter(({ packet, row }) => {
    const got = receiver.receive(packet)
    return got.kind === 'error' || !isSame(got.fact.sensors, row.expected, precision)
  }).length
  const differences: { core: string; packet: number; hex: string; reference: string }[] = []
  for (const name of names.slice(1)) {
    const packets = packetsOf(coreMaker(cores, name), precision)
    packets.forEach(({ packet }, n) => {
      const want = reference[n]!.packet
      if (!want.equals(packet) && differences.length < MOST_DIFFERENCES)
        differences.push({ core: name, packet: n, hex: packet.toString('hex'), reference: want.toString('hex') })
    })
  }
  const rates: CoreRates[] = []
  for (const name of names) rates.push(await ratesOf(name, coreMaker(cores, name), precision, tell))
  const alone = names.length < 2
  const equal = alone ? null : differences.length === 0
  return {
    ok: wrong === 0 && equal !== false,
    cores: rates,
    packets_compared: alone ? 0 : reference.length,
    equal,
    differences,
    wrong,
    note: alone
      ? `one core is built in (${namesOf(cores)}; rscore: ${whyMissing('rscore')}): there is nothing to compare its bytes with`
      : equal
        ? `${namesOf(cores)}: the same bytes in ${counted(reference.length, 'packet')}`
        : `${namesOf(cores)}: the bytes differ`,
  }
}
