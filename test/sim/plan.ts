// The draws of a seed: the configuration of the machines, how bad each kind of fault is, and the list of faults with their times. The
// list is made before the run, so that a shrunk run leaves faults out and keeps the others unchanged.

import type { Dice } from './engine'
import type { Tuning } from './program'

export const FAULTS = [
  'kill',
  'power',
  'mid-call', // dies in one of the next calls of an interface
  'mid-recovery', // dies, and again while it starts
  'after-cursor', // dies right after it wrote a cursor
  'after-commit', // the upstream dies right after a commit, its answers lost
  'after-roll', // dies soon after a new segment
  'slow-sync-kill', // a slow sync, a kill in it, and a power cut after the restart
  'disk', // ENOSPC, EIO or EROFS for a while
  'failed-sync-power', // syncs fail, and the power goes soon after
  'slow-disk',
  'partition',
  'one-way',
  'loss',
  'delay',
  'freeze',
  'clock',
  'stop', // a clean stop and start
  'broker-away', // and back, with everything it acknowledged
  'broker-drop', // connections end
  'broker-mute', // it acknowledges nothing for a while
] as const
/**
 * Drawn in addition. `rot`: bits of a sealed segment change; `reload`: the file of the configuration changes and is read again;
 * `new-card`: a machine continues with its configuration alone; `old-card`: with a copy of its card, made while it ran (`power`) or after
 * a clean stop, some time before; `view`: the SQL worker of the upstream dies; `repeat-power`: the upstream loses readings that it got
 * twice before they were committed; `plug`: the adapter of a serial line is pulled and put back; `stuck`: it takes no bytes for a while; `noise`:
 * bytes of all lines are lost, changed or added.
 */
export type FaultKind =
  | (typeof FAULTS)[number]
  | 'rot'
  | 'reload'
  | 'new-card'
  | 'old-card'
  | 'view'
  | 'repeat-power'
  | (typeof LINE_FAULTS)[number]
const LINE_FAULTS = ['plug', 'stuck', 'noise'] as const

export interface Fault {
  readonly kind: FaultKind
  /** virtual ms */
  readonly at: number
  /** machine: 0 is the upstream */
  readonly machine: number
  /** ms it lasts, if it lasts */
  readonly ms: number
  /** for other draws of the fault */
  readonly seed: number
  readonly power: boolean
}

export type Medium = 'UDP' | 'TCP' | 'MQTT' | 'UART'
const MEDIA: readonly (readonly Medium[])[] = [
  ['UDP'],
  ['UDP'],
  ['UDP'],
  ['TCP'],
  ['TCP'],
  ['MQTT'],
  ['MQTT'],
  ['UDP', 'TCP'],
  ['TCP', 'UDP'],
]
/** Of the seeds with serial lines. */
const WIRED: readonly (readonly Medium[])[] = [['UART'], ['UART'], ['UART'], ['UART', 'UDP'], ['TCP', 'UART']]

/** `strict`: the disk keeps its guarantees. `lying`: syncs do nothing. */
export type DiskMode = 'strict' | 'lying'

/** Where a gateway sends its readings: the upstream (0), or a gateway that passes them on. */
export interface Way {
  readonly to: number
  /** of its uplinks, best first */
  readonly media: readonly Medium[]
}

export interface Plan {
  readonly seed: number
  readonly hours: number
  readonly gateways: number
  readonly diskMode: DiskMode
  readonly intervalMs: number
  /** a restarted process gets the ports of the one before */
  readonly samePorts: boolean
  /** sources continue for a minute after the faults */
  readonly afterglow: boolean
  /** gateways request their ids, relays those of their devices in pools of that size; 0: the configuration names each id */
  readonly idPool: number
  /** a gateway first starts so much later than the one before it */
  readonly lateMs: number
  /** of each gateway by its number; the one of the upstream leads nowhere */
  readonly ways: readonly Way[]
  /** settings of both ends of each serial line; undefined: there are none */
  readonly line: { readonly baudrate: number; readonly framing: 'uart' | 'cobs' } | undefined
  readonly mqtt: { readonly qos: 1 | 2; readonly protocol_version: 4 | 5; readonly keepalive_s: number }
  readonly tuning: Tuning
  /** the upstream has a SQL view, whose windows are sealed after so many packets; 0: none */
  readonly windowPackets: number
  /** of the upstream's log: it fills, and drops the oldest; 0: what the product has */
  readonly upstreamBytes: number
  readonly config: {
    gateway: Record<string, unknown>
    uplink: Record<string, unknown>
    engine: Record<string, unknown>
  }
  readonly upstream: Record<string, unknown>
  /** share of the bytes of serial lines that noise touches in between, 0: there is none at all */
  readonly noise: number
  readonly weather: { loss: number; double: number; delay: number; jitter: number }
  readonly syncMs: number
  readonly vouched: boolean
  /** ms that a killed process stays away */
  readonly awayMs: number
  readonly faults: readonly Fault[]
}

/** Situations that a run can have in each seed: a disk that refuses to the end; readings repeated before their commit; a full log of a gateway; runs
 *  of a gateway with the ports of the run before and an upstream that stays; clocks that are set again and again; a full log of the upstream; kills, with syncs that fail in
 *  the next start and a power cut behind them */
export const AIMS = ['last', 'repeat', 'full', 'ports', 'clock', 'upstream', 'adopt'] as const
export type Aim = (typeof AIMS)[number]

/** Share of the seeds with a relay. */
const RELAYED = 0.1
/** Of those whose gateways request their ids. */
const REQUESTED = 0.05

/** Of those with serial lines. */
const LINED = 0.04

/** Kinds that only some modes know. */
const RARE: Partial<Record<FaultKind, number>> = { clock: 0.3 }

/** What a run asks of each plan; left out: as the seed draws. */
export interface PlanOptions {
  hours: number
  mode?: DiskMode
  /** of the uplinks, best first */
  media?: readonly Medium[]
  /** with a SQL view at the upstream or without */
  sql?: boolean
  /** a situation that the seed has in any case */
  aim?: Aim
  /** a gateway sends to another gateway, which passes it on */
  relays?: boolean
  /** gateways request their ids */
  ids?: boolean
}

export function planOf(
  seed: number,
  dice: Dice,
  { hours, mode, media: forced, sql, aim, relays, ids }: PlanOptions,
): Plan {
  /** A situation that some seeds have, and all with that aim. */
  const has = (name: Aim, dice: Dice, share: number): boolean => dice.chance(share) || aim === name
  const drawn = dice.fork('plan')
  const lives = drawn.fork('mode').next()
  const diskMode = mode ?? (lives < 0.93 ? 'strict' : 'lying')
  const drawnGateways = drawn.pick([1, 1, 1, 1, 2, 3])
  // a third of the kinds is off, the others differ in weight by two orders of magnitude
  const serial = drawn.fork('serial')
  const lined = serial.chance(LINED)
  const media = forced ?? (lined ? serial.pick(WIRED) : drawn.fork('media').pick(MEDIA))
  // the second gateway sends to the first, a third to any of them
  const relay = drawn.fork('relay')
  const relayed = relay.chance(RELAYED) || relays === true
  const pools = drawn.fork('ids')
  // a disk that lies loses ids, and the file of the configuration that an id was written to
  const idPool = (pools.chance(REQUESTED) || ids === true) && diskMode === 'strict' ? pools.pick([1, 2, 8, 32]) : 0
  const lateMs = idPool > 0 ? pools.scale(100, (hours * 3_600_000) / 3) : 0
  const gateways = relayed || idPool > 0 ? Math.max(2, drawnGateways) : drawnGateways
  const ways = Array.from({ length: gateways + 1 }, (_, k): Way => {
    if (!relayed || k < 2) return { to: 0, media: k === 0 ? [] : media }
    return { to: k === 2 ? 1 : relay.pick([1, 2, 0]), media: forced ?? relay.pick(MEDIA) }
  })
  const line = ways.some(({ media }) => media.includes('UART'))
    ? { baudrate: serial.pick([19_200, 115_200, 115_200, 921_600]), framing: serial.pick(['uart', 'cobs'] as const) }
    : undefined
  const noises = serial.pick([0, 1e-5, 1e-4, 1e-3])
  // requests of ids have no checksum in that framing
  const noise = line?.framing === 'uart' && idPool > 0 ? 0 : noises
  const brokered = ways.some(({ media }) => media.includes('MQTT'))
  const weights = FAULTS.map(kind =>
    kind.startsWith('broker') && !brokered ? 0 : drawn.chance(RARE[kind] ?? 0.65) ? drawn.scale(0.05, 5) : 0,
  )
  const sum = weights.reduce((a, b) => a + b, 0)
  const mean = drawn.scale(7000, 90_000)
  const end = hours * 3_600_000
  const faults: Fault[] = []
  for (let at = drawn.between(2000, mean); sum > 0 && at < end; at += -Math.log(1 - drawn.next()) * mean) {
    let left = drawn.next() * sum
    let kind: FaultKind = FAULTS[0]
    for (const [k, weight] of weights.entries()) {
      left -= weight
      if (weight > 0) kind = FAULTS[k]!
      if (left <= 0) break
    }
    faults.push({
      kind,
      at,
      machine: drawn.below(gateways + 1),
      ms: drawn.scale(500, 120_000),
      seed: drawn.below(2 ** 31),
      power: drawn.chance(0.4),
    })
  }
  const pause = serial.scale(10_000, 200_000)
  for (let at = serial.next() * pause; line && at < end; at += -Math.log(1 - serial.next()) * pause) {
    const [kind, machine, ms] = [serial.pick(LINE_FAULTS), serial.below(gateways + 1), serial.scale(50, 60_000)]
    if (kind !== 'noise' || noise > 0) faults.push({ kind, at, machine, ms, seed: serial.below(2 ** 31), power: false })
  }
  const rot = drawn.fork('rot')
  if (rot.chance(0.2))
    for (let left = 1 + rot.below(3); left > 0; left--) {
      const [machine, at, kind] = [rot.below(gateways + 1), rot.between(0.1, 1) * end, 'rot'] as const
      faults.push({ kind, at, machine, ms: 0, seed: rot.below(2 ** 31), power: false })
    }
  const reload = drawn.fork('reload')
  if (reload.chance(0.3))
    for (let left = 1 + reload.below(6); left > 0; left--) {
      const [machine, at, ms] = [reload.below(gateways + 1), reload.next() * end, reload.scale(500, 120_000)]
      faults.push({ kind: 'reload', at, machine, ms, seed: reload.below(2 ** 31), power: false })
    }
  // who gives ids dies between two gateways that request one
  for (let k = 2; idPool > 0 && k <= gateways; k++) {
    const [kind, at] = [pools.pick(['kill', 'power'] as const), (k - 2 + pools.between(0.3, 1)) * lateMs]
    faults.push({ kind, at, machine: ways[k]!.to, ms: 0, seed: pools.below(2 ** 31), power: false })
  }
  // a card without the ids that it gave out would give them again: only gateways that give none get another
  const cards = (machine: number): boolean =>
    idPool === 0 || (machine > 0 && !ways.some(({ to }, from) => from > 0 && to === machine))
  const card = drawn.fork('card')
  if (card.chance(0.15)) {
    const [gateway, at] = [1 + card.below(gateways), card.next() * end]
    const machine = card.chance(0.4) ? 0 : gateway
    if (cards(machine)) faults.push({ kind: 'new-card', at, machine, ms: 0, seed: card.below(2 ** 31), power: true })
  }
  const old = drawn.fork('old')
  if (old.chance(0.15)) {
    const [machine, at, ms] = [old.below(gateways + 1), old.next() * end, old.scale(2000, 0.7 * end)]
    if (cards(machine))
      faults.push({ kind: 'old-card', at, machine, ms, seed: old.below(2 ** 31), power: old.chance(0.5) })
  }
  const view = drawn.fork('view')
  const windowPackets = (sql ?? view.chance(0.05)) ? view.pick([20, 60, 200, 1000]) : 0
  if (windowPackets > 0)
    for (let left = view.below(4); left > 0; left--) {
      const [at, seed] = [view.next() * end, view.below(2 ** 31)]
      faults.push({ kind: 'view', at, machine: 0, ms: 0, seed, power: false })
    }
  // a disk that refuses to the end, and then sources that give nothing: only the log itself retries
  const last = drawn.fork('last')
  const afterglow = last.chance(0.8) && aim !== 'last'
  if (!afterglow) {
    const at = end - last.scale(500, 20_000)
    faults.push({
      kind: 'disk',
      at,
      machine: last.below(gateways + 1),
      ms: 120_000,
      seed: last.below(2 ** 31),
      power: false,
    })
  }
  const repeat = drawn.fork('repeat')
  if (has('repeat', repeat, 0.2))
    for (let left = 1 + repeat.below(3); left > 0; left--) {
      const [machine, at, seed] = [1 + repeat.below(gateways), repeat.next() * end, repeat.below(2 ** 31)]
      faults.push({ kind: 'repeat-power', at, machine, ms: 0, seed, power: true })
    }
  // a log that is full: no connection to the upstream for long, and starts that take room too
  const full = drawn.fork('full')
  const fills = has('full', full, 0.04)
  if (fills) {
    const machine = 1 + full.below(gateways)
    const [at, ms] = [full.between(0.02, 0.1) * end, full.between(0.6, 0.8) * end]
    const direct = { machine, seed: full.below(2 ** 31), power: false }
    faults.push({ kind: 'partition', at, ms, ...direct })
    for (let left = full.below(12); left > 0; left--)
      faults.push({ kind: 'kill', at: full.between(0.3, 1) * end, ms: 0, ...direct, power: full.chance(0.5) })
    // and kills between the drop of a segment and the note of it
    for (let left = 4 + full.below(8); left > 0; left--)
      faults.push({ kind: 'after-roll', at: full.between(0.2, 0.9) * end, ms: 0, ...direct, seed: full.below(2 ** 31) })
  }
  const refuses = fills && full.chance(0.5)
  // not with a SQL view, which then lacks what was dropped before it was stored
  const small = drawn.fork('upstream')
  const upstreamBytes = aim === 'upstream' && windowPackets === 0 ? small.pick([65_536, 98_304]) : 0
  // each run of a gateway has a numbering of its own, which an upstream that stays must distinguish from that of the run before
  const ports = drawn.fork('numbering')
  const again = has('ports', ports, 0.04)
  if (again) {
    faults.length = 0
    for (let at = ports.between(0.05, 0.2) * end; at < end; at += ports.between(0.05, 0.4) * end) {
      const machine = 1 + ports.below(gateways)
      faults.push({ kind: 'kill', at, machine, ms: 0, seed: ports.below(2 ** 31), power: false })
    }
  }
  // a process is killed before its commit, the syncs of the next one fail, and then the power does
  const killed = drawn.fork('adopt')
  for (let left = aim === 'adopt' ? 4 + killed.below(6) : 0; left > 0; left--) {
    const [machine, at] = [killed.below(gateways + 1), killed.next() * end]
    for (const kind of ['kill', 'failed-sync-power'] as const)
      faults.push({ kind, at, machine, ms: 100, seed: killed.below(2 ** 31), power: false })
  }
  const clocks = drawn.fork('clocks')
  for (let left = aim === 'clock' ? 2 + clocks.below(8) : 0; left > 0; left--) {
    const [machine, at, seed] = [clocks.below(gateways + 1), clocks.next() * end, clocks.below(2 ** 31)]
    faults.push({ kind: 'clock', at, machine, ms: 0, seed, power: false })
  }
  // a segment is several blocks of the medium, like any that can be configured
  const tuning: Tuning = {
    ...(drawn.chance(0.7) && { segmentBytes: drawn.pick([8192, 8192, 16_384, 32_768]), leastSegment: 8192 }),
    ...((drawn.chance(0.25) || fills) && { maxBytes: drawn.pick([65_536, 98_304]) }),
    ...(drawn.chance(0.3) && { reserve: drawn.pick([256, 4096]) }),
    ...(drawn.chance(0.2) && { bufferBytes: drawn.pick([4096, 16_384]) }),
  }
  return {
    seed,
    hours,
    gateways,
    diskMode,
    intervalMs: fills || upstreamBytes > 0 ? 250 : drawn.pick([500, 1000, 2000, 2000, 5000]),
    samePorts: drawn.fork('ports').chance(0.3) || again,
    afterglow,
    idPool,
    lateMs,
    ways,
    line,
    noise,
    mqtt: { qos: drawn.pick([1, 1, 2]), protocol_version: drawn.pick([4, 5]), keepalive_s: drawn.pick([5, 30]) },
    tuning,
    windowPackets,
    upstreamBytes,
    config: {
      gateway: {
        commit_interval_ms: drawn.pick([1000, 1000, 200, 3000, 10_000]),
        ack_commit_ms: drawn.pick([100, 100, 5, 1000]),
        commit_bytes: drawn.pick([65_536, 65_536, 512, 2048]),
        when_full: refuses ? 'refuse' : drawn.pick(['drop_oldest', 'drop_oldest', 'refuse']),
      },
      uplink: {
        frames: drawn.pick(['auto', 'auto', 'auto', 'full']),
        // "last" gives no guarantee where packets are lost
        ...(drawn.chance(0.4) && { diff_base: drawn.pick(['sticky', 'sticky']) }),
        full_every: drawn.pick([100, 3, 10]),
        batch_window_ms: drawn.pick([0, 0, 100, 2000]),
        ...(drawn.chance(0.2) && { batch_max_items: drawn.pick([1, 2, 5]) }),
        ...(drawn.chance(0.2) && { rate_packets_s: drawn.pick([5, 20]) }),
      },
      engine: { precision: 4 },
    },
    upstream: {
      commit_interval_ms: drawn.pick([1000, 1000, 200, 3000]),
      ack_commit_ms: drawn.pick([100, 100, 5, 1000]),
      commit_bytes: drawn.pick([65_536, 65_536, 512]),
    },
    weather: {
      loss: drawn.pick([0, 0.02, 0.05, 0.3]),
      double: drawn.pick([0, 0.02, 0.3]),
      delay: drawn.pick([1, 5, 50, 300]),
      jitter: drawn.pick([0, 10, 30, 500]),
    },
    syncMs: drawn.pick([0.2, 2, 10, 50]),
    vouched: drawn.chance(0.8) && (aim !== 'clock' || clocks.chance(0.5)),
    awayMs: drawn.pick([100, 1000, 5000, 30_000]),
    faults,
  }
}
