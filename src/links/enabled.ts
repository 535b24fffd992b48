// Whether a medium may be used: its flag in Config.json (specification, "Configuration keys": transport_status and its like).
// The flag counts for everything that would use the medium: dispatch, uplinks and receivers.
import type { ConfigStore } from '../config'
import { OsError } from '../lib/errors'
import { mediumInfo } from './registry'

/** True when the medium's flag is on; media without a flag are on. */
export function mediumEnabled(config: ConfigStore, medium: string): boolean {
  const info = mediumInfo(medium)
  return !info || config.get(`RESOURCES.${info.status}.${info.options_name}`) === true
}

/** Why a link over a medium that is switched off stays down, and what to do. */
export const mediumOff = (medium: string): OsError =>
  new OsError('MEDIUM_OFF', `${mediumInfo(medium)?.name ?? medium} is switched off`, {
    hint: `os-node transporter-toggle --name ${medium} --enable`,
  })
