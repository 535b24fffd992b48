// One status line for `systemctl status` (STATUS= of sd_notify).
import { counted } from '../../lib/counted'
import type { GatewayStatus } from '../status'

export function statusLine({ links, log, disk, forwarding, safe_mode, guard }: GatewayStatus): string {
  const all = Object.entries(links).filter(([, { state }]) => state !== 'absent')
  const down = all.filter(([, { state }]) => state === 'down' || state === 'opening').map(([name]) => name)
  const parts = [
    ...(safe_mode ? [`SAFE MODE: ${safe_mode}`] : []),
    `${all.length - down.length} of ${counted(all.length, 'link')} up`,
    ...(down.length > 0 ? [`not up: ${down.slice(0, 5).join(', ')}${down.length > 5 ? ' …' : ''}`] : []),
    ...(forwarding && forwarding.backlog > 0 ? [`${counted(forwarding.backlog, 'fact')} waiting`] : []),
    ...(log.state === 'degraded' ? [`log degraded: ${log.reason ?? 'not written'}`] : []),
    ...(disk ? [`in RAM only (${disk.reason}): ${disk.in_ram.join(', ')}`] : []),
    ...(guard && guard.level !== 'normal' ? [`doing less: ${guard.reason ?? guard.level}`] : []),
  ]
  return parts.join('; ')
}
