// The interface of this machine that leads to an address, and its largest unfragmented datagram. Determined by the
// kernel: a connected UDP socket gets the interface's address; nothing is sent. Unknown is null, never an error.
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { interfaces } from '../../src/links/network'
import { parseIp } from './codec'

export interface Way {
  readonly interface: string
  readonly mtu: number
}

/** `host`: an IPv4 address; names are not resolved. */
export async function wayTo(host: string, port: number): Promise<Way | null> {
  if (parseIp(host) === null) return null
  const socket = createSocket({ type: 'udp4', lookup: (address, _options, done) => done(null, address, 4) })
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.connect(port, host, resolve)
    })
    const { address } = socket.address()
    const found = Object.entries(interfaces()).find(([, list]) => list?.some(own => own.address === address))
    if (!found) return null
    const mtu = Number(readFileSync(`/sys/class/net/${found[0].split(':')[0]}/mtu`, 'latin1'))
    return Number.isInteger(mtu) && mtu > 0 ? { interface: found[0], mtu } : null
  } catch {
    return null // no route now: the UDP medium reports that
  } finally {
    socket.close()
  }
}
