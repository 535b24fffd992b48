// Whether a gateway works, for the trial of a new version on the SD image: the log is writable, safe mode is off, and an
// upstream has answered since the start. A node without uplinks works as soon as it has started.
import type { GatewayStatus } from '../status'

/**
 * An upstream has answered when it acknowledged a packet, or answered the probe of its link and nothing is left to send. One that never
 * acknowledges (best effort) counts once a packet was sent.
 */
export function works({
  safe_mode,
  log,
  forwarding,
  uplinks,
  links,
}: Pick<GatewayStatus, 'safe_mode' | 'log' | 'forwarding' | 'uplinks' | 'links'>): boolean {
  if (safe_mode !== undefined || log.state === 'degraded') return false
  if (!forwarding) return true
  return Object.entries(uplinks).some(([name, { acked, sent, backlog, delivery }]) => {
    const quiet = delivery === 'acked' && backlog === 0 && links[name]?.state === 'up'
    return quiet || (delivery === 'best_effort' ? sent : acked) > 0
  })
}
