// compare: sends the same readings through every built-in core, and shows the rates and whether the bytes are equal (decision 0064:
// both cores give identical bytes for every input). With one core only it reports that there is nothing to compare.
import { breathe } from './checks'
import { type CoreTable, coreMaker, namesOf, ucum, whyMissing } from './cores'
import { counted, createNativeChecks, Receiver } from './program'
import { Histogram } from './stress/histogram'
import { isSame, ringOf, type StressReadings } from './stress/readings'

/** µs per packet; for batches, or frames decoded together, the mean */
interface Latency {
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

type Kind = 'full' | 'diff' | 'heart' | 'batch' | 'decode'
/** one call; `n` is its number */
type Run = (n: number) => void
interface Rate {
  readonly pps: number
  readonly latency: Latency
}

interface CoreRates {
  readonly name: string
  /** packets a second, best of several windows */
  readonly full_pps: number
  readonly diff_pps: number
  readonly heart_pps: number
  /** DIFFs encoded in batches of 256 */
  readonly batch_pps: number
  /** DIFFs decoded 256 at a time; rscore lets the native core compute the checksums */
  readonly decode_pps: number
  readonly latency_us: Readonly<Record<Kind, Latency>>
}

export interface Comparison {
  readonly ok: boolean
  readonly cores: readonly CoreRates[]
  readonly packets_compared: number
  /** null: there is only one core */
  readonly equal: boolean | null
  /** at most ten */
  readonly differences: readonly { core: string; packet: number; hex: string; reference: string }[]
  /** packets whose decoded values differ */
  readonly wrong: number
  readonly note: string
}

const DEVICES = 4
const ROUNDS = 256
const BATCH = 256
const WINDOWS = 3
/** what is measured for each core, and packets per call */
const KINDS: readonly (readonly [Kind, per: number])[] = [
  ['full', 1],
  ['diff', 1],
  ['heart', 1],
  ['batch', BATCH],
  ['decode', BATCH],
]
const WINDOW_MS = 60
const AID = 0x00c0_ffee
const T0 = 1_710_000_000_000
const MOST_DIFFERENCES = 10

/** Every kind of packet: first FULLs, DIFFs, HEARTs without changes, and refused rows in between. */
function packetsOf(make: CoreTable[string], precision: number): { packet: Buffer; row: StressReadings }[] {
  const core = make({ precision })
  const all = Array.from({ length: DEVICES }, (_, device) => ringOf(device, precision))
  const rows = Array.from({ length: DEVICES * ROUNDS }, (_, n) => {
    const device = n % DEVICES
    const round = Math.floor(n / DEVICES)
    const ring = all[device]!
    // every fourth round repeats the previous one
    const row = ring[(round % 4 === 3 ? round - 1 : round) % ring.length]!
    const strategy = round === 0 || round % 50 === 49 ? 'FULL' : 'DIFF'
    const readings = round % 10 === 9 ? [...row.readings, ['X', 'OK', Number.NaN, 'Pa'] as const] : row.readings
    core.stage(readings, `compare-${device}`, 'ONLINE', T0 + n, AID, strategy)
    return row
  })
  return core.take().map((packet, n) => ({ packet, row: rows[n]! }))
}

/**
 * Packets a second of each run: the best of several short windows. The runs alternate, so that other load on the machine
 * matters less and all use the same compiled code; a call processes `per` packets. Then the time per packet, over one more
 * window.
 */
async function inTurns(runs: readonly Run[], per: number, report: () => void): Promise<Rate[]> {
  const calls = Math.max(1, 256 / per)
  for (const run of runs) for (let n = 0; n < 2000 / per; n++) run(n)
  const done = runs.map(() => 0)
  const best = runs.map(() => 0)
  for (let window = 0; window < WINDOWS; window++)
    for (const [k, run] of runs.entries()) {
      await breathe()
      const start = performance.now()
      const first = done[k]!
      let now = start
      while (now - start < WINDOW_MS) {
        for (let call = 0; call < calls; call++) run(done[k]!++)
        now = performance.now()
      }
      best[k] = Math.max(best[k]!, (((done[k]! - first) * per) / (now - start)) * 1000)
    }
  const rates: Rate[] = []
  for (const [k, run] of runs.entries()) {
    await breathe()
    rates.push({ pps: Math.round(best[k]!), latency: latencyOf(run, per) })
    report()
  }
  return rates
}

function latencyOf(run: Run, per: number): Latency {
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
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: us(times.max) }
}

/** Passes frames to a receiver that has not seen them, one batch per call. */
function decoder(make: CoreTable[string], name: string, precision: number): Run {
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

/** What is measured for a core; each measurement has its own templates. */
function runsOf(make: CoreTable[string], name: string, precision: number): Record<Kind, Run> {
  const ring = ringOf(0, precision)
  const at = (n: number): StressReadings => ring[n % ring.length]!
  const sender = (row: (n: number) => StressReadings, strategy: 'FULL' | 'DIFF'): Run => {
    const core = make({ precision })
    let t = T0
    core.transmitFast(row(ring.length - 1).readings, 'rate', 'ONLINE', t++, AID, 'FULL')
    return n => void core.transmitFast(row(n).readings, 'rate', 'ONLINE', t++, AID, strategy)
  }
  const batches = make({ precision })
  let t = T0
  return {
    full: sender(at, 'FULL'),
    diff: sender(at, 'DIFF'),
    heart: sender(() => at(0), 'DIFF'),
    batch: n => {
      for (let k = 0; k < BATCH; k++) batches.stage(at(n + k).readings, 'rate', 'ONLINE', t++, AID, 'DIFF')
      batches.take()
    },
    decode: decoder(make, name, precision),
  }
}

async function ratesOf(cores: CoreTable, precision: number, report: () => void): Promise<CoreRates[]> {
  const names = Object.keys(cores)
  const runs = names.map(name => runsOf(coreMaker(cores, name), name, precision))
  const rates = {} as Record<Kind, Rate[]>
  for (const [kind, per] of KINDS)
    rates[kind] = await inTurns(
      runs.map(run => run[kind]),
      per,
      report,
    )
  return names.map((name, k) => {
    const pps = (kind: Kind): number => rates[kind][k]!.pps
    return {
      name,
      full_pps: pps('full'),
      diff_pps: pps('diff'),
      heart_pps: pps('heart'),
      batch_pps: pps('batch'),
      decode_pps: pps('decode'),
      latency_us: Object.fromEntries(KINDS.map(([kind]) => [kind, rates[kind][k]!.latency])) as CoreRates['latency_us'],
    }
  })
}

/** Called with the number of finished measurements and the total. */
export type CompareProgress = (done: number, of: number) => void

/** Does not throw for differences: they are the result. */
export async function compareCores(
  cores: CoreTable,
  precision = 4,
  onProgress: CompareProgress = () => undefined,
): Promise<Comparison> {
  const names = Object.keys(cores)
  let done = 0
  const report = (): void => onProgress(++done, KINDS.length * names.length)
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
  const rates = await ratesOf(cores, precision, report)
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
