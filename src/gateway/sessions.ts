// The two halves of the gateway's secure sessions, as configured: one for what it receives, one for each uplink, each with
// sessions and a file of its own, since a key made for receiving must never encrypt. A file that cannot be read or written is
// told in the log and costs a new exchange of keys, nothing else.
import { createHash } from 'node:crypto'
import { join, resolve } from 'node:path'
import type { ConfigStore, UplinkConfig } from '../config'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import { SecureClient } from '../protocol/secure/client'
import { SecureServer } from '../protocol/secure/server'
import { SecureSessions } from '../protocol/secure/sessions'
import type { NodeClock } from '../protocol/time'

export interface SessionBuild {
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

/** Its file is `security_settings.secure_session_store`, from the folder of Config.json (of the project) when the path is relative. */
export function receivingSessions(build: SessionBuild): SecureServer {
  const { config, time } = build
  const { require_secure, secure_session_store: store } = config.config.security_settings
  const path = store ? resolve(config.baseDir, store) : join(config.dataDir, 'secure_sessions.json')
  return new SecureServer({
    sessions: sessions(build, path),
    clock: time,
    serverTime: () => time.now() / 1000,
    requireSecure: require_secure,
  })
}

/** how an uplink sends; all other options may say where to */
const SENDING =
  /^(name|delivery|diff_base|frames|full_every|full_interval_seconds|rate_packets_s|rate_bytes_s|batch_.*|qos|enabled)$/

/** Which server an uplink leads to, as a hash: the options may hold passwords. The loopback's port differs from start to start. */
function peerOf(settings: UplinkConfig): string {
  if (settings.name === 'loopback') return 'loopback'
  const where = Object.entries(settings).filter(([key, value]) => value !== undefined && !SENDING.test(key))
  return createHash('sha256').update(JSON.stringify(where.sort())).digest('hex').slice(0, 16)
}

/** Its file is `<data>/secure_sessions.<uplink>.json`; one of another server is not used. */
export function sendingSessions(build: SessionBuild, settings: UplinkConfig): SecureClient {
  const { config, time } = build
  return new SecureClient({
    sessions: sessions(build, join(config.dataDir, `secure_sessions.${settings.name}.json`), peerOf(settings)),
    clock: time,
    requireSecure: config.config.security_settings.require_secure,
  })
}
