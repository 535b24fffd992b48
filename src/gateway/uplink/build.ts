// Builds one configured uplink: its medium, the requests it makes, the sender behind it, and the link that is up only when
// the peer answered. Throws NO_DRIVER or CONFIG_INVALID; the gateway shows the link as down with that reason.
import { randomBytes } from 'node:crypto'
import type { UplinkConfig } from '../../config'
import type { Files } from '../../lib/files'
import { mediumInfo } from '../../links/registry'
import type { FlashLog, LogRecord, TimeQuality } from '../../log'
import type { WireUnits } from '../../pipeline/core'
import type { NodeClock } from '../../protocol/time'
import type { Identity } from '../identity'
import type { PoolWish } from '../ids'
import type { LinkParts } from '../parts'
import { sendingSessions } from '../sessions'
import { ProbedMedium } from './probed'
import { UpstreamRequests } from './requests'
import { Uplink } from './uplink'

export interface UplinkBuild extends LinkParts {
  readonly log: FlashLog
  readonly identity: Identity
  readonly time: NodeClock
  /** puts the time of a record right that was stamped before a sync */
  readonly correct: (record: LogRecord) => void
  readonly units: WireUnits
  readonly files: Files
  readonly nextSeq: () => number
  /** an id came or the time was set: every uplink may have something to send */
  readonly changed: () => void
  /** ids this gateway wants of this upstream for its own nodes */
  readonly pool: PoolWish | null
  /** takes the uplink before its link begins to open */
  readonly ready: (uplink: Uplink) => void
}

export async function addUplink(build: UplinkBuild, settings: UplinkConfig): Promise<void> {
  const { config, clock, registry, supervisor, log, identity, time, units, nextSeq, changed, pool } = build
  const { name, medium: mediumName, host, port, ...rest } = settings
  const logger = build.logger.child(name)
  const driver = await registry.mediumDriver(mediumName)
  const options = { ...rest, host, port: port || mediumInfo(mediumName)?.default_port }
  const medium = driver.create(name, options, { clock, logger, trueNow: build.trueNow })
  const send = (packet: Uint8Array): Promise<boolean> => medium.send(packet)
  const requests = new UpstreamRequests({ send, nextSeq, clock, time, identity, logger, changed, pool })
  const plain = settings.delivery === 'best_effort'

  /** Records whose time nobody vouches for wait for the first sync, but not for ever (D18). */
  const holdMs = (quality: TimeQuality): number => {
    if (quality !== 'unsynced' || time.synced) return 0
    return Math.max(0, config.config.gateway.time.hold_unsynced_s * 1000 - time.unsyncedMs)
  }

  const uplink = new Uplink(
    {
      name,
      diffBase: settings.diff_base ?? 'sticky',
      frames: settings.frames ?? 'auto',
      fullEvery: settings.full_every ?? 100,
      fullIntervalS: settings.full_interval_seconds ?? 60,
      precision: config.config.engine_settings.precision,
      dialect: config.config.engine_settings.unit_dialect,
      delivery: plain ? 'best_effort' : 'auto',
    },
    {
      log,
      medium,
      clock,
      logger,
      identity,
      units,
      nextSeq,
      randomEpoch: () => randomBytes(4).readUInt32BE(),
      secure: sendingSessions({ config, time, logger, files: build.files }, name),
      now: () => time.now(),
      degraded: reason => supervisor.get(name)?.complain('session', reason),
      lost: reason => supervisor.get(name)?.lost(reason),
      onControl: packet => requests.received(packet),
      onReady: () => requests.start(),
      holdMs,
      correct: build.correct,
    },
  )
  build.ready(uplink)
  time.onDoubt(() => requests.askTime())
  supervisor.onChange((link, state) => {
    if (link !== name) return
    if (state.state !== 'up' && state.state !== 'degraded') requests.stop()
    uplink.link(state)
  })
  // X29: a peer that does not answer is probed again after 2 s, doubling to 60 s
  if (plain) supervisor.add(medium)
  else {
    const probed = new ProbedMedium(
      medium,
      () => uplink.probe(),
      () => uplink.probing.cancel(),
    )
    supervisor.add(probed, { backoff: { minMs: 2000, maxMs: 60_000 } })
  }
}
