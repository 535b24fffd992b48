// A time server (SNTP, RFC 4330) with the time of this machine, for an emulated board.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'

/** from 1900, where NTP counts from, to 1970 */
const SECONDS = 2_208_988_800

export async function timeServer(): Promise<Socket> {
  const socket = createSocket('udp4')
  socket.on('message', (asked, { port, address }) => {
    const answer = Buffer.alloc(48)
    const now = Date.now() / 1000 + SECONDS
    // version 4, server; of stratum 1; precise to a millisecond
    answer.set([0x24, 1, asked[2]!, 0xf6])
    answer.write('TEST', 12)
    asked.copy(answer, 24, 40, 48)
    for (const at of [16, 32, 40]) {
      answer.writeUInt32BE(Math.floor(now), at)
      answer.writeUInt32BE(Math.floor((now % 1) * 2 ** 32), at + 4)
    }
    socket.send(answer, port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return socket
}
