// Whether a medium may be used: its flag in Config.json (specification, "Configuration keys": transport_status etc.).
// The flag applies to everything that uses the medium: dispatch, uplinks and receivers.
import type { ConfigStore } from '../config'
import { OsError } from '../lib/errors'
import { mediumInfo } from './registry'

/** True when the medium's flag is on; media without a flag are on. */
export function mediumEnabled(config: ConfigStore, medium: string): boolean {
  const info = mediumInfo(medium)
  return !info || config.get(`RESOURCES.${info.status}.${info.options_name}`) === true
}

/** The error of a link over a disabled medium, with what to do. */
export const mediumOff = (medium: string): OsError =>
  new OsError('MEDIUM_OFF', `${mediumInfo(medium)?.name ?? medium} is switched off`, {
    hint: `os-node transporter-toggle --name ${medium} --enable`,
  })
