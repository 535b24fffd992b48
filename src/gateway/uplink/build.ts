// Builds one configured uplink: its medium, its requests, the sender, and the link, which is up only after the peer has
// answered. Throws NO_DRIVER, MEDIUM_OFF or CONFIG_INVALID; the link is then shown as down with that reason.
import { randomBytes } from 'node:crypto'
import type { UplinkConfig } from '../../config'
import type { BackoffOptions } from '../../lib/backoff'
import type { Files } from '../../lib/files'
import type { Medium } from '../../links/contracts'
import { mediumEnabled, mediumOff } from '../../links/enabled'
import { hostOf } from '../../links/network'
import { portOf } from '../../links/registry'
import type { RecordTimeQuality } from '../../log'
import type { NodeClock } from '../../protocol/time'
import type { Identity } from '../identity'
import type { PoolWish } from '../ids'
import type { LinkDeps } from '../link-deps'
import { type ServerSessions, sendingSessions } from '../sessions'
import { probedMedium } from './probed-medium'
import { UpstreamRequests } from './requests'
import { Uplink, type UplinkParts } from './uplink'

export interface UplinkBuild
  extends LinkDeps,
    Pick<UplinkParts, 'log' | 'units' | 'nextSeq' | 'timers' | 'cores'>,
    Required<Pick<UplinkParts, 'queue' | 'watchers' | 'largest' | 'onUsable'>> {
  readonly identity: Identity
  readonly time: NodeClock
  /** False: a time correction is not on flash yet. */
  readonly timeKept?: () => boolean
  readonly files: Files
  /** secure sessions of every uplink of this run, by name */
  readonly sessions: Map<string, ServerSessions>
  /** whether that uplink takes facts that are too large for the active one */
  readonly isSecondary: (uplink: Uplink) => boolean
  /** an id was assigned or the time was set: the active uplink may have something to send */
  readonly changed: () => void
  /** ids this gateway requests from this upstream for its own nodes; null: none */
  readonly pool: () => PoolWish | null
  /** receives the uplink before its link is opened */
  readonly ready: (uplink: Uplink) => void
}

/** Returns a function that removes it. */
export async function addUplink(build: UplinkBuild, settings: UplinkConfig): Promise<() => Promise<void>> {
  const { config, clock, registry, supervisor, identity, time, nextSeq, changed, pool } = build
  const { name, medium: mediumName, host, ...others } = settings
  const logger = build.logger.child(name)
  if (!mediumEnabled(config, mediumName)) throw mediumOff(mediumName)
  const driver = await registry.mediumDriver(mediumName)
  const options = { ...others, host, port: portOf(mediumName, settings) }
  const medium = driver.create(name, options, {
    clock,
    logger,
    trueNow: build.trueNow,
    identity,
    dataDir: config.dataDir,
  })
  const send = (packet: Uint8Array): Promise<boolean> => medium.send(packet)
  const confirms = name === 'loopback' ? null : time
  const requests = new UpstreamRequests({ send, nextSeq, clock, time: confirms, identity, logger, changed, pool })
  const plain = settings.delivery === 'best_effort'

  const uplink: Uplink = new Uplink(
    {
      name,
      ...(settings.diff_base !== undefined && { diffBase: settings.diff_base }),
      frames: settings.frames ?? 'auto',
      fullEvery: settings.full_every ?? 100,
      fullIntervalS: settings.full_interval_seconds ?? 60,
      precision: config.config.engine_settings.precision,
      dialect: config.config.engine_settings.unit_dialect,
      delivery: plain ? 'best_effort' : 'auto',
      ratePacketsS: settings.rate_packets_s ?? 0,
      rateBytesS: settings.rate_bytes_s ?? 0,
      batchWindowMs: settings.batch_window_ms ?? 0,
      ...(settings.batch_max_items !== undefined && { batchItems: settings.batch_max_items }),
      ...(settings.batch_max_bytes !== undefined && { batchBytes: settings.batch_max_bytes }),
    },
    {
      ...build,
      secondary: () => build.isSecondary(uplink),
      medium,
      logger,
      randomEpoch: () => randomBytes(4).readUInt32BE(),
      secure: sendingSessions({ config, time, logger, files: build.files }, settings, build.sessions),
      now: () => time.now(),
      degraded: reason => supervisor.get(name)?.complain('session', reason),
      lost: reason => supervisor.get(name)?.lost(reason),
      onControl: packet => requests.received(packet),
      onReady: () => requests.start(),
      // the queue holds records back, not the medium
      holdMs: () => 0,
    },
  )
  build.ready(uplink)
  const undoubt = time.onDoubt(() => requests.requestTime())
  const unwatch = supervisor.onChange((link, state) => {
    if (link !== name) return
    if (state.state !== 'up' && state.state !== 'degraded') requests.stop()
    uplink.link(state)
  })
  // X29: a peer that does not answer is probed again after 2 s, doubling to the limit of every backoff
  if (plain) supervisor.add(medium, hostOf(settings))
  else {
    const probed = probedMedium(
      medium,
      () => uplink.probe(),
      () => uplink.cancelProbe(),
    )
    supervisor.add(probed, { ...hostOf(settings), backoff: { minMs: 2000, ...probesApart(medium) } })
  }
  return async () => {
    await supervisor.remove(name)
    unwatch()
    undoubt()
    requests.stop()
    uplink.stop()
  }
}

const PROBE_BYTES = 10
/** per opening, at most: after 0, 2, 6 and 14 s */
const PROBES = 4
/** share of the allowed airtime for probes of an unreachable peer */
const PROBE_PART = 0.25

/** For a medium with expensive probes: the delay between two openings is always the maximum, of which half is random. */
function probesApart({ airtime }: Medium): BackoffOptions {
  if (!airtime) return {}
  const maxMs = Math.max(60_000, (2 * PROBES * airtime.of(PROBE_BYTES)) / (airtime.share * PROBE_PART))
  return { maxMs, quickMs: maxMs }
}

/** interval between checks whether the record of a correction is on flash */
const KEPT_MS = 50

/**
 * How long a record of a time quality is held back. A record of an unsynced clock waits for the first sync, for a limited
 * time, and then until its correction is on flash (decision 0044): after a power cut it would be sent again with another time, and be
 * another reading upstream.
 */
export const holding =
  ({ config, time, timeKept }: Pick<UplinkBuild, 'config' | 'time' | 'timeKept'>) =>
  (quality: RecordTimeQuality): number => {
    if (quality !== 'unsynced') return 0
    if (timeKept?.() === false) return KEPT_MS
    if (time.synced) return 0
    return Math.max(0, config.config.gateway.time.hold_unsynced_s * 1000 - time.unsyncedMs)
  }
