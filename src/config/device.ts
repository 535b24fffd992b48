// The readable id by which a server recognizes a device: host name and four random hex digits, made once and stored in
// Config.json before the first request, so that two new installations never request as the same device (S1, X39).
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { ConfigStore } from './config-store'

/** In the reference, `UNKNOWN` means a device without a name. */
export const isDeviceName = (id: unknown): id is string => typeof id === 'string' && id !== '' && id !== 'UNKNOWN'

export function newDeviceId(): string {
  const host = hostname()
    .replace(/[^A-Za-z0-9_-]/g, '-')
    .slice(0, 40)
  return `${host || 'gateway'}-${randomBytes(2).toString('hex')}`
}

/** The device id of a configuration; if there is none, one is made and stored. Throws CONFIG_WRITE, CONFIG_SYNTAX. */
export function ensureDeviceId(config: ConfigStore): string {
  // another process may have made one meanwhile
  if (!isDeviceName(config.get('device_id'))) config.reload()
  const kept = config.get('device_id')
  if (isDeviceName(kept)) return kept
  const made = newDeviceId()
  config.set('device_id', made)
  return made
}
