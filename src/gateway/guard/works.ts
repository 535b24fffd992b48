// Whether a gateway does its work, for the trial of a new version on the SD image: the log is written, it is not in safe mode, and an
// upstream took a fact since the start. A node without uplinks works when it has started.
import type { GatewayStatus } from '../status'

/** Each call looks once; the first one is the start. */
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
