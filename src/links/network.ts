// Network information for links. No errors.
import { networkInterfaces } from 'node:os'
import { asOsError } from '../lib/errors'

/** Whether a configured host is this machine. */
export const isLocalHost = (host: string): boolean =>
  host === 'localhost' || host.endsWith('.localhost') || host === '::1' || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(host)

/** The host of a configuration entry, if it has one. */
export const hostOf = (entry: object): { host?: string } =>
  'host' in entry && typeof entry.host === 'string' ? { host: entry.host } : {}

type Interfaces = ReturnType<typeof networkInterfaces>

/** The interfaces of this machine; the last known ones if no descriptor is left for the query. */
export function interfaces(): Interfaces {
  try {
    known = networkInterfaces()
  } catch (error) {
    asOsError(error) // counted; the next check queries again
  }
  return known
}

let known: Interfaces = {}

/** The addresses of this machine as one text: a different text means that the network changed. */
export function networkState(): string {
  const lines: string[] = []
  for (const [name, addresses] of Object.entries(interfaces()))
    for (const { cidr, address, internal } of addresses ?? []) if (!internal) lines.push(`${name} ${cidr ?? address}`)
  // never empty: a machine without a network may get one
  return `network ${lines.sort().join(' ')}`
}
