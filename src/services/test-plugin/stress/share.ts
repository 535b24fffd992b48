// The work of one thread: lanes that alternate on one core, each a separate source (AID) with its devices. A turn of several
// packets encodes them in batches, which rscore does in WebAssembly. Input and output are plain data, so that a share can run
// here, in a thread or in another process.

import type { Core, Strategy } from '../../../pipeline/core'
import { breathe } from '../checks'
import { BUILT_IN_CORES, type CoreTable, coreMaker } from '../cores'
import { asOsError, readHeader } from '../program'
import { openChain, type Tally } from './chain'
import { Histogram, type HistogramParts } from './histogram'
import type { ChainMode } from './options'
import { ringOf, type StressReadings } from './readings'

export interface Share {
  readonly core: string
  readonly precision: number
  /** number of each lane and its packets */
  readonly lanes: readonly { readonly lane: number; readonly packets: number }[]
  readonly sources: number
  readonly batchSize: number
  readonly probeRate: number
  readonly chain: ChainMode
}

export interface ShareResult {
  ok: number
  fail: number
  bytes: number
  full: number
  diff: number
  heart: number
  probed: number
  probesFailed: number
  /** errors and their counts; at most 20 kinds */
  errors: Record<string, number>
  latency: HistogramParts
  /** UNIX ms with fractions, comparable between processes */
  startedAt: number
  endedAt: number
}

const T0 = 1_710_000_000_000
/** AID of the first lane; the AIDs of a run are consecutive */
const FIRST_AID = 0x0100_0000
const MAX_ERRORS = 20
/** more devices than this share their values: rings need memory */
const MAX_RINGS = 64
/** maximum batch size; a turn of more packets uses several batches */
const MOST_BATCH = 256
const BREATHE_MS = 15
const PROGRESS_MS = 100

const now = (): number => performance.timeOrigin + performance.now()

/** The input for one packet. */
interface Order {
  readonly row: StressReadings
  readonly device: string
  readonly t: number
  readonly strategy: Strategy
}

/** One source: its devices in turn, each first with a FULL, then with the core's choice. */
function laneOf(lane: number, packets: number, sources: number, rings: readonly (readonly StressReadings[])[]) {
  let sent = 0
  return {
    aid: FIRST_AID + lane,
    left: packets,
    next(): Order {
      const n = sent++
      const round = Math.floor(n / sources)
      const device = n % sources
      const ring = rings[device % rings.length]!
      this.left--
      return {
        row: ring[round % ring.length]!,
        device: `stress-${device}`,
        t: T0 + n,
        strategy: round === 0 ? 'FULL' : 'DIFF',
      }
    },
  }
}
type Lane = ReturnType<typeof laneOf>

interface RunShare {
  readonly cores?: CoreTable
  readonly signal?: AbortSignal
  /** called with the packets done so far, about ten times a second */
  readonly onProgress?: (done: number) => void
}

/** Prepares everything before the measurement; `run` does the work. Throws NOT_FOUND for an unknown core. */
export async function prepareShare(share: Share, { cores = BUILT_IN_CORES, signal, onProgress }: RunShare = {}) {
  const core = coreMaker(cores, share.core)({ precision: share.precision })
  const rings = Array.from({ length: Math.min(share.sources, MAX_RINGS) }, (_, device) =>
    ringOf(device, share.precision),
  )
  const lanes = share.lanes.map(({ lane, packets }) => laneOf(lane, packets, share.sources, rings))
  const latency = new Histogram()
  const result: ShareResult = {
    ok: 0,
    fail: 0,
    bytes: 0,
    full: 0,
    diff: 0,
    heart: 0,
    probed: 0,
    probesFailed: 0,
    errors: {},
    latency: latency.parts(),
    startedAt: 0,
    endedAt: 0,
  }
  const tally: Tally = {
    arrived: ms => {
      result.ok++
      latency.add(ms)
    },
    failed: why => {
      result.fail++
      if (why in result.errors || Object.keys(result.errors).length < MAX_ERRORS)
        result.errors[why] = (result.errors[why] ?? 0) + 1
    },
  }
  const chain = await openChain(share.chain, tally, share.precision)
  const probe = headerProber(share.probeRate, result)

  /** Passes an encoded packet through the remaining chain. */
  const goOn = (packet: Buffer, { t, row }: Order, aid: number, startedAt: number): void | Promise<void> => {
    count(result, packet)
    const wrong = probe(packet, aid, t)
    if (wrong !== null) return tally.failed(wrong)
    return chain.take({ packet, startedAt, expected: row.expected })
  }

  /** Encodes a packet immediately, or adds it to the batch; null, and counted, if the core refuses it. */
  const make = <T>(lane: Lane, order: Order, how: (...args: Parameters<Core['stage']>) => T): T | null => {
    try {
      return how(order.row.readings, order.device, 'ONLINE', order.t, lane.aid, order.strategy)
    } catch (thrown) {
      tally.failed(asOsError(thrown).message)
      return null
    }
  }

  const one = (lane: Lane): void | Promise<void> => {
    const startedAt = performance.now()
    const order = lane.next()
    const packet = make(lane, order, (...args) => core.transmitFast(...args))
    return packet === null ? undefined : goOn(packet, order, lane.aid, startedAt)
  }

  const batch = async (lane: Lane, most: number): Promise<void> => {
    const startedAt = performance.now()
    const orders: Order[] = []
    for (let k = 0; k < most && lane.left > 0; k++) {
      const order = lane.next()
      if (make(lane, order, (...args) => core.stage(...args)) !== null) orders.push(order)
    }
    for (const [k, packet] of core.take().entries()) {
      const waits = goOn(packet, orders[k]!, lane.aid, startedAt)
      if (waits) await waits
    }
  }

  return async function run(): Promise<ShareResult> {
    result.startedAt = now()
    let breath = performance.now()
    let reported = breath
    let open = lanes.filter(({ left }) => left > 0)
    while (open.length > 0 && !signal?.aborted) {
      let ended = false
      for (const lane of open) {
        for (let k = 0; k < share.batchSize && lane.left > 0; k += MOST_BATCH) {
          const waits = share.batchSize === 1 ? one(lane) : batch(lane, Math.min(MOST_BATCH, share.batchSize - k))
          if (waits) await waits
        }
        ended ||= lane.left === 0
        const at = performance.now()
        if (at - breath < BREATHE_MS) continue
        await breathe()
        breath = performance.now()
        if (signal?.aborted) break
        if (breath - reported < PROGRESS_MS) continue
        reported = breath
        onProgress?.(result.ok + result.fail)
      }
      if (ended) open = open.filter(({ left }) => left > 0)
    }
    await chain.finish()
    result.endedAt = now()
    onProgress?.(result.ok + result.fail)
    return { ...result, latency: latency.parts() }
  }
}

function count(result: ShareResult, packet: Uint8Array): void {
  result.bytes += packet.length
  if (packet[0] === 0x3f) result.full++
  else if (packet[0] === 0xaa) result.diff++
  else result.heart++
}

/** Checks an even share of the headers: returns the problem, null if there is none or the header was not checked. */
function headerProber(rate: number, result: ShareResult) {
  let due = 0
  return (packet: Uint8Array, aid: number, t: number): string | null => {
    due += rate
    if (due < 1 - 1e-9) return null
    due -= 1
    result.probed++
    const wrong = headerProblem(packet, aid, t)
    if (wrong !== null) result.probesFailed++
    return wrong
  }
}

function headerProblem(packet: Uint8Array, aid: number, t: number): string | null {
  const header = readHeader(packet)
  if (typeof header === 'string') return `header: ${header}`
  if (!header.crc16Ok) return 'header: CRC-16 is wrong'
  if (header.sourceAid !== aid) return 'header: another AID'
  if (header.ts !== t) return 'header: another time'
  if (header.tid < 1 || header.tid > 254) return 'header: TID out of range'
  return [0x3f, 0xaa, 0x7f].includes(header.cmd) ? null : 'header: no data command'
}
