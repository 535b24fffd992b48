// Extracts the sender from an address, in the formats of the media. Pure.
import { isIP } from 'node:net'

/**
 * `192.0.2.1:8080`, `[fd00::1]:8080` or a bare address → its IP, '' if it has none. IPv4-mapped IPv6 addresses count as IPv4.
 */
export function ipOf(address: string): string {
  const host = /^\[([^\]]+)\](?::\d+)?$/.exec(address)?.[1] ?? (isIP(address) ? address : address.replace(/:\d+$/, ''))
  const ip = host.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')
  return isIP(ip) ? ip : ''
}

/** The sender without its port; on media without IP in the medium's own format: a line, a radio, an MQTT topic. */
export const senderOf = (address: string): string => ipOf(address) || address

/** Like senderOf(), but an IPv6 address is reduced to its /64, which belongs to one host. */
export function networkOf(address: string): string {
  const ip = ipOf(address)
  if (isIP(ip) !== 6) return ip || address
  const [head = '', tail] = ip.toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const last = tail === '' ? 0 : tail.split(':').length
    while (groups.length < 8 - last) groups.push('0')
    if (tail !== '') groups.push(...tail.split(':'))
  }
  const network = groups.slice(0, 4).map(group => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}

/** The address in a session file, where the reference writes a pair. */
export const peerAddress = (text: string): string => /^\('(.+)', \d+\)$/.exec(text)?.[1] ?? text
