// A cable to the emulated board with this test at its other end: its frames of Ethernet are datagrams here. It asks for names by multicast DNS,
// as a phone in the same network does: the emulator's own network passes no multicast on.
import { createSocket, type Socket } from 'node:dgram'
import { freeUdpPort, until } from '../lib/gateway'

const GROUP = [224, 0, 0, 251]
const PORT = 5353
const SELF = [169, 254, 9, 9]
const IP_BYTES = 20

/** The sum of RFC 1071 over the header of an IPv4 packet. */
function checksum(header: Buffer): number {
  let sum = 0
  for (let at = 0; at < header.length; at += 2) sum += header.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}

/** `name` as DNS has it in a packet. */
const encoded = (name: string): Buffer =>
  Buffer.concat([
    ...name.split('.').map(part => Buffer.from(`${String.fromCharCode(part.length)}${part}`)),
    Buffer.alloc(1),
  ])

/** The frame with the question for the IPv4 address of `name`. */
function question(name: string): Buffer {
  // one question, of type A and class IN
  const dns = Buffer.concat([
    Buffer.from([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
    encoded(name),
    Buffer.from([0, 1, 0, 1]),
  ])
  const udp = Buffer.alloc(8)
  for (const [at, value] of [PORT, PORT, udp.length + dns.length].entries()) udp.writeUInt16BE(value, 2 * at)
  const ip = Buffer.from([0x45, 0, 0, 0, 0, 0, 0, 0, 255, 17, 0, 0, ...SELF, ...GROUP])
  ip.writeUInt16BE(ip.length + udp.length + dns.length, 2)
  ip.writeUInt16BE(checksum(ip), 10)
  const ethernet = Buffer.from([1, 0, 0x5e, 0, 0, 0xfb, 2, 0, 0, 0, 0, 9, 8, 0])
  return Buffer.concat([ethernet, ip, udp, dns])
}

/** The address that a frame gives for `name`. */
function answered(frame: Buffer, name: string): string | undefined {
  const ip = frame.subarray(14)
  if (frame.readUInt16BE(12) !== 0x0800 || ip[9] !== 17) return undefined
  const dns = ip.subarray(IP_BYTES + 8)
  if ((dns[2]! & 0x80) === 0) return undefined
  // the name, type A, class IN that flushes caches, its life, four bytes
  const at = dns.indexOf(Buffer.concat([encoded(name), Buffer.from([0, 1, 0x80, 1])]))
  if (at < 0) return undefined
  const from = at + encoded(name).length + 10
  return dns.subarray(from, from + 4).join('.')
}

export class Lan {
  readonly #socket: Socket = createSocket('udp4')
  readonly #frames: Buffer[] = []
  #board = 0

  /** The emulator's arguments for the cable. */
  async plug(): Promise<string[]> {
    this.#board = await freeUdpPort()
    await new Promise<void>(resolve => this.#socket.bind(0, '127.0.0.1', resolve))
    this.#socket.on('message', frame => this.#frames.push(frame))
    const ends = `udp=127.0.0.1:${this.#socket.address().port},localaddr=127.0.0.1:${this.#board}`
    return ['-netdev', `socket,id=lan,${ends}`, '-device', 'virtio-net-pci,netdev=lan,romfile=']
  }

  /** The address of `name`, queried until the board answers. */
  resolve(name: string, ms: number): Promise<string> {
    return until(
      `the address of ${name}`,
      () => {
        const found = this.#frames.map(frame => answered(frame, name)).find(Boolean)
        if (!found) this.#socket.send(question(name), this.#board, '127.0.0.1')
        return found
      },
      ms,
    )
  }

  close(): void {
    this.#socket.close()
  }
}
