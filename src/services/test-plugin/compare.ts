// compare: the same readings through every core that is built in; rates side by side, and whether the bytes are the same (D12:
// both cores give identical bytes for every input). With one core there is nothing to compare, and it says so.
import { breathe } from './checks'
import { type CoreTable, coreMaker, namesOf, ucum } from './cores'
import { counted, Receiver } from './program'
import { isSame, type Row, ringOf } from './stress/readings'

interface CoreRates {
  readonly name: string
  /** packets a second, best of several windows */
  readonly full_pps: number
  readonly diff_pps: number
  readonly heart_pps: number
  /** DIFFs made in batches of 256 */
  readonly batch_pps: number
  readonly decode_pps: number
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

/** Calls a second: best of several short windows, so that a neighbour on the machine counts less. */
async function rateOf(run: (n: number) => void): Promise<number> {
  for (let n = 0; n < 2000; n++) run(n)
  let best = 0
  for (let window = 0; window < WINDOWS; window++) {
    await breathe()
    const start = performance.now()
    let done = 0
    let now = start
    while (now - start < WINDOW_MS) {
      for (let k = 0; k < 256; k++) run(done++)
      now = performance.now()
    }
    best = Math.max(best, (done / (now - start)) * 1000)
  }
  return Math.round(best)
}

async function ratesOf(name: string, make: CoreTable[string], precision: number): Promise<CoreRates> {
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
  const core = make({ precision })
  const packets = Array.from({ length: 4096 }, (_, n) =>
    core.transmitFast(at(n).readings, 'rate', 'ONLINE', T0 + n, AID, n === 0 ? 'FULL' : 'DIFF'),
  )
  let receiver = new Receiver({ units: ucum, precision })
  return {
    name,
    full_pps: await rateOf(sender(at, 'FULL')),
    diff_pps: await rateOf(sender(at, 'DIFF')),
    heart_pps: await rateOf(sender(() => at(0), 'DIFF')),
    batch_pps: await rateOf(n => {
      batches.stage(at(n).readings, 'rate', 'ONLINE', t++, AID, 'DIFF')
      if (batches.staged === BATCH) batches.take()
    }),
    decode_pps: await rateOf(n => {
      const k = n % packets.length
      // a pass is decoded by a receiver that is new to it
      if (k === 0) receiver = new Receiver({ units: ucum, precision })
      receiver.receive(packets[k]!)
    }),
  }
}

/** Throws nothing for differences: they are the result. */
export async function compareCores(cores: CoreTable, precision = 4): Promise<Comparison> {
  const names = Object.keys(cores)
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
  for (const name of names) rates.push(await ratesOf(name, coreMaker(cores, name), precision))
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
      ? `one core is built in (${namesOf(cores)}): there is nothing to compare its bytes with`
      : equal
        ? `${namesOf(cores)}: the same bytes in ${counted(reference.length, 'packet')}`
        : `${namesOf(cores)}: the bytes differ`,
  }
}
