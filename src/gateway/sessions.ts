// The two sides of the gateway's secure sessions, as configured: one for receiving, one per uplink, each with its own
// sessions and file, since a receiving key must never encrypt.
// Errors: a file that cannot be read or written is logged and causes a new key exchange, nothing else.
import { createHash } from 'node:crypto'
import { join, resolve } from 'node:path'
import type { ConfigStore, UplinkConfig } from '../config'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import { SecureClient } from '../protocol/secure/client'
import { SecureServer } from '../protocol/secure/server'
import { SecureSessions } from '../protocol/secure/sessions'
import type { NodeClock } from '../protocol/time'

interface SessionBuild {
  config: ConfigStore
  time: NodeClock
  logger: Logger
  files: Files
}

function sessions({ config, time, logger, files }: SessionBuild, storePath: string, peer?: string): SecureSessions {
  const { secure_session_expire_seconds, time_sync_threshold } = config.config.security_settings
  return new SecureSessions({
    expireSeconds: secure_session_expire_seconds,
    timeSyncThreshold: time_sync_threshold,
    storePath,
    ...(peer !== undefined && { peer }),
    now: () => Math.floor(time.now() / 1000),
    mono: () => time.mono(),
    files,
    onProblem: problem => logger.warn(problem),
  })
}

/**
 * The sessions are stored in `security_settings.secure_session_store`; a relative path starts at the folder of Config.json
 * (of the project).
 */
export function receivingSessions(build: SessionBuild): SecureServer {
  const { config, time } = build
  const { require_secure, secure_session_store: store, rekey_after_s } = config.config.security_settings
  const path = store ? resolve(config.baseDir, store) : join(config.dataDir, 'secure_sessions.json')
  return new SecureServer({
    sessions: sessions(build, path),
    clock: time,
    serverTime: () => time.now() / 1000,
    requireSecure: require_secure,
    rekeyAfterS: rekey_after_s,
    plaintextAfterSecure: () => config.config.receiver.plaintext_after_secure,
    onRekey: (event, aid, address) =>
      build.logger.warn(
        event === 'replaced'
          ? `id ${aid}: its session key was replaced by one of ${address}`
          : `id ${aid}: ${address} was refused a session key: the device sends from another address. If it lost its keys: os-node session forget ${aid}`,
      ),
  })
}

/** options that say how an uplink sends; all others may say where to */
const SENDING =
  /^(name|delivery|diff_base|frames|full_every|full_interval_seconds|rate_packets_s|rate_bytes_s|batch_.*|qos|enabled|server)$/

/** The server of an uplink, as a hash: the options may contain passwords. The local upstream's port changes between starts. */
function peerOf(settings: UplinkConfig): string {
  if (settings.name === 'loopback') return 'loopback'
  const where = Object.entries(settings).filter(([key, value]) => value !== undefined && !SENDING.test(key))
  return createHash('sha256').update(JSON.stringify(where.sort())).digest('hex').slice(0, 16)
}

/** The sessions of an uplink, and the name of its server. */
export interface ServerSessions {
  readonly server: string
  readonly sessions: SecureSessions
}

/** Uplinks without a host (a bus) have their own server, unless they name one. */
const serverOf = ({ name, server, host }: UplinkConfig): string => `${server ?? host ?? `uplink ${name}`}`.toLowerCase()

/**
 * The sessions are stored in `<data>/secure_sessions.<uplink>.json`; a file of another server is not used. `all`: sessions of
 * every uplink of this run by name, including removed uplinks: the upstream may use the key of another uplink to the same
 * server (X37), and the newest is tried first.
 */
export function sendingSessions(
  build: SessionBuild,
  settings: UplinkConfig,
  all: Map<string, ServerSessions> = new Map(),
): SecureClient {
  const { config, time } = build
  const own = sessions(build, join(config.dataDir, `secure_sessions.${settings.name}.json`), peerOf(settings))
  const server = serverOf(settings)
  all.set(settings.name, { server, sessions: own })
  return new SecureClient({
    sessions: own,
    clock: time,
    requireSecure: config.config.security_settings.require_secure,
    otherServers: aid =>
      [...all.values()]
        .map(other => (other.sessions === own || other.server !== server ? null : other.sessions.session(aid)))
        .map(session => (session?.dict_ready ? (session.first_plaintext_ts ?? 0) : 0))
        .filter(timestamp => timestamp > 0)
        .sort((a, b) => b - a),
  })
}
