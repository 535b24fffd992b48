// What a machine may hold: its log on flash and in RAM, packets in flight, and what a receiver remembers of its senders.
import type { Machine, World } from './world'

/** without a draw of the seed, of the log of a gateway and of an upstream (gateway.log.max_bytes) */
const MAX_BYTES = 256 * 2 ** 20
/** a file of the log may be half created, and damaged pieces wait for the next turn */
const FILE_BYTES = 4096
const IN_FLIGHT = 1024
/** of one device: 4,096 packets of 20 bytes (src/protocol/duplicates.ts) */
const DUPLICATE_BYTES = 4096 * 20 + 500
/** of one device: 8 runs of it (src/pipeline/sources.ts) with some templates each, of 2 KB */
const TEMPLATE_BYTES = 8 * 16 * 2100

/** ids that a relay asks for unless the seed draws another size (id_pool.size) */
const POOL = 32
/** most segments of a log (src/log/log-options.ts) */
const SEGMENTS = 256
/** longest record of these worlds */
const RECORD = 1024
/** of one address: a serial line has one for all senders (src/protocol/delivery/receiver.ts) */
const EPOCHS = 64

/** What is beyond a bound; `status`: the figures that cost as much as everything else in these seconds too. */
export function* beyond(world: World, machine: Machine, status: boolean): Iterable<string> {
  const { plan } = world
  const gateway = machine.gateway!
  const { log } = gateway
  const over = (what: string, value: number, most: number): string[] =>
    value > most ? [`${machine.name}: ${what}: ${value}, of ${most}`] : []
  yield* over('committed', log.committedSeq, log.lastSeq)
  const most = (machine.isUpstream ? plan.upstreamBytes : plan.tuning.maxBytes) || MAX_BYTES
  const files = ['/data/log', '/data/log/damaged'].flatMap(dir =>
    machine.disk.list(dir).map(file => machine.disk.size(`${dir}/${file}`)),
  )
  yield* over(
    'bytes of the log',
    files.reduce((sum, size) => sum + size, 0),
    most + FILE_BYTES,
  )
  const { segmentBytes = 2 ** 20, bufferBytes = 2 ** 23 } = plan.tuning
  // as src/log/log-options.ts says; neither the chunks of a running commit, whose last one still fills, nor the newest one are dropped, and the
  // record that begins another chunk is there before the one before is dropped
  const segment = Math.min(Math.max(segmentBytes, Math.ceil(most / SEGMENTS)), Math.floor(most / 8))
  const chunk = Math.min(65_536, Math.floor(segment / 4))
  yield* over('bytes of the log in RAM', log.pendingBytes, Math.max(bufferBytes, 4 * chunk) + 2 * chunk + RECORD)
  if (!status) return
  const {
    uplinks,
    received,
    sessions,
    ids,
    log: { bytes, max_bytes },
  } = gateway.status()
  yield* over('bytes of the log by its status', bytes, max_bytes + FILE_BYTES)
  yield* over(
    'packets in flight',
    Object.values(uplinks).reduce((sum, { in_flight }) => sum + in_flight, 0),
    IN_FLIGHT,
  )
  yield* over('devices of the receiver', received['sources']!, plan.gateways)
  yield* over('bytes of the duplicate filter', received['duplicate_bytes']!, plan.gateways * DUPLICATE_BYTES)
  yield* over('bytes of templates', received['template_bytes']!, plan.gateways * TEMPLATE_BYTES)
  yield* over('senders with a session', sessions?.aids ?? 0, plan.gateways)
  // each opening of an uplink is a peer, by its address or its epoch
  const lines = plan.ways.some(({ media }) => media.includes('UART')) ? plan.gateways * EPOCHS : 0
  yield* over('peers of the receiver', received['peers']!, world.net.opened + lines)
  // a relay may send to a relay; one whose answer was lost, or which died before it was written, asks for its pool again
  const pooled = plan.ways.some(({ to }) => to > 0)
  const pools = pooled ? (plan.idPool || POOL) * world.machines.reduce((sum, { starts }) => sum + starts, 0) : 0
  yield* over('ids in use', ids?.allocated ?? 0, plan.gateways + pools)
}
