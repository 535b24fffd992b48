// Whether a gateway works, for the trial of a new version on the SD image: the log is writable, safe mode is off, and an
// upstream accepted a fact since the start. A node without uplinks works as soon as it has started.
import type { GatewayStatus } from '../status'

/** Each call checks once; the first call sets the start values. */
export function worksSince(status: () => Pick<GatewayStatus, 'safe_mode' | 'log' | 'forwarding'>): () => boolean {
  let first: number | undefined
  return () => {
    const { safe_mode, log, forwarding } = status()
    if (safe_mode !== undefined || log.state === 'degraded') return false
    if (!forwarding) return true
    first ??= forwarding.cursor
    return forwarding.cursor > first
  }
}
