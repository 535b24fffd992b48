// receiver.allow (decision 0022): which senders are accepted. An entry is an IP address, a range (`192.0.2.0/24`, `fd00::/8`), or, on
// media without IP, an address exactly as the medium writes it. Any other entry admits no sender, and is logged once at the
// start: a mistake must not open the receiver.
import { BlockList, isIP } from 'node:net'
import type { Logger } from '../../lib/logger'
import { ipOf } from '../../protocol/address'

const family = (ip: string): 'ipv4' | 'ipv6' => (isIP(ip) === 6 ? 'ipv6' : 'ipv4')

/** Whether packets of a sender's address are accepted. An empty list accepts all. */
export function allowList(
  entries: readonly string[],
  logger: Logger,
  what = 'receiver.allow',
): (address: string) => boolean {
  if (entries.length === 0) return () => true
  const list = new BlockList()
  const names = new Set<string>()
  for (const entry of entries.map(text => text.trim())) {
    const [net = '', bits] = entry.split('/')
    const ip = ipOf(net)
    try {
      if (entry !== '' && (ip === '' || ip !== net)) names.add(entry)
      else if (bits === undefined && ip !== '') list.addAddress(ip, family(ip))
      else if (bits && /^\d+$/.test(bits)) list.addSubnet(ip, Number(bits), family(ip))
      else throw new RangeError('neither address nor range')
    } catch {
      logger.error(`${what}: ${JSON.stringify(entry)} is not an address range and admits no address`)
    }
  }
  return address => {
    const ip = ipOf(address)
    return names.has(address) || (ip !== '' && list.check(ip, family(ip)))
  }
}
