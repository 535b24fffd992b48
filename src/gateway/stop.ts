// The graceful stop: first the sources, then the backlog is sent to the upstreams that answer, then links, cursors, templates
// and sessions, and finally the commit. Every step has a time limit, so that one hanging driver does not prevent the others.
import type { Clock } from '../lib/clock'
import type { Logger } from '../lib/logger'
import { sleep, systemTimers } from '../lib/timers'
import type { Supervisor } from '../links/supervisor'
import type { FlashLog } from '../log'
import type { Receiver } from '../pipeline/receiver'
import type { SecureSessions } from '../protocol/secure/sessions'
import type { Database } from '../storage'
import { runSteps } from './guard/bounded-stop'
import type { Guard } from './guard/guard'
import type { Reloader } from './guard/reload'
import type { DeviceIds } from './ids'
import type { LocalUpstream } from './local-upstream'
import type { TimeKeeper } from './time/gateway-time'
import type { Uplinks } from './uplink/uplinks'

/** time limit for the upstreams, and for everything before the last commit */
const DRAIN_MS = 3000
const STOP_MS = 8000
const COMMIT_MS = 2000

interface StopParts {
  readonly guard: Guard
  readonly log: FlashLog
  readonly supervisor: Supervisor
  readonly uplinks: Uplinks
  readonly localUpstream: LocalUpstream
  readonly ids: DeviceIds | null
  readonly database: Database | null
  readonly receiver: Receiver
  readonly sessions: SecureSessions
  readonly keeper: TimeKeeper
  readonly reloader: Reloader | undefined
}

async function closeSources(supervisor: Supervisor): Promise<void> {
  const sources = Object.entries(supervisor.links()).filter(([, link]) => link.kind === 'source')
  await Promise.all(sources.map(([name]) => supervisor.disable(name)))
}

/** Sends the backlog for a moment to the upstreams that answer; the remaining facts are sent after the next start. */
async function drain(uplinks: Uplinks, clock: Clock): Promise<void> {
  const end = clock.mono() + DRAIN_MS
  uplinks.pump()
  while (uplinks.draining && clock.mono() < end) await sleep(systemTimers, 20)
}

/** Stops everything. Resolves false if the log could not be committed completely. */
export async function stopGateway(parts: StopParts, clock: Clock, logger: Logger): Promise<boolean> {
  const { guard, log, supervisor, uplinks, localUpstream, ids, database, receiver, sessions, keeper, reloader } = parts
  guard.stopping(STOP_MS + 2 * COMMIT_MS)
  const left = await runSteps(
    [
      { name: 'reload', limitMs: 1000, run: () => reloader?.stop() },
      { name: 'sources', limitMs: 1500, run: () => closeSources(supervisor) },
      { name: 'commit', limitMs: COMMIT_MS, must: true, run: () => log.flush() },
      { name: 'drain', limitMs: DRAIN_MS + 500, run: () => drain(uplinks, clock) },
      { name: 'links', limitMs: 3000, run: () => supervisor.stop() },
      { name: 'cursors', limitMs: 500, must: true, run: () => uplinks.stop() },
      // after the links: an upstream that ends first looks like a fault
      { name: 'local upstream', limitMs: 3000, run: () => localUpstream.stop() },
      { name: 'templates', limitMs: 500, must: true, run: () => receiver.save() },
      { name: 'time', limitMs: 500, must: true, run: () => keeper.stop() },
      { name: 'sessions', limitMs: 500, must: true, run: () => sessions.save(true) },
      { name: 'ids', limitMs: 500, must: true, run: () => ids?.stop() },
      { name: 'log', limitMs: COMMIT_MS, must: true, run: () => log.close() },
      { name: 'database', limitMs: 1000, run: () => database?.close() },
    ],
    STOP_MS,
    { clock, logger },
  )
  return !left.includes('log')
}
