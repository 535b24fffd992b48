// What a link wants to know of the network its peer is in. Nothing here fails.
import { networkInterfaces } from 'node:os'
import { asOsError } from '../lib/errors'

/** Whether the host is this machine, as the configuration names it. */
export const isLocalHost = (host: string): boolean =>
  host === 'localhost' || host.endsWith('.localhost') || host === '::1' || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(host)

/** The host an entry of the configuration names, if it does. */
export const hostOf = (entry: object): { host?: string } =>
  'host' in entry && typeof entry.host === 'string' ? { host: entry.host } : {}

type Interfaces = ReturnType<typeof networkInterfaces>

/** The interfaces of this machine; the last known where it has no descriptor left to ask with. */
export function interfaces(): Interfaces {
  try {
    known = networkInterfaces()
  } catch (error) {
    asOsError(error) // counted; the next look asks again
  }
  return known
}

let known: Interfaces = {}

/** The addresses of this machine as one text: another one means that the network changed. */
export function networkState(): string {
  const lines: string[] = []
  for (const [name, addresses] of Object.entries(interfaces()))
    for (const { cidr, address, internal } of addresses ?? []) if (!internal) lines.push(`${name} ${cidr ?? address}`)
  // never empty: a machine without a network is one whose network may come
  return `network ${lines.sort().join(' ')}`
}
