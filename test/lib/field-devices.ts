// Devices of a gateway's environment that need no bus of their own: what a Modbus slave answers and boards with the C firmware send.
import { peerFrame, peerText } from './peer'

/** CRC-16 of Modbus. */
function crc(bytes: Uint8Array): number {
  let register = 0xffff
  for (const byte of bytes) {
    register ^= byte
    for (let bit = 0; bit < 8; bit++) register = (register >> 1) ^ (register & 1 ? 0xa001 : 0)
  }
  return register
}

/** A frame of a board with the C firmware: one sensor, in kelvin. */
export const firmware = (aid: number, sensor: string, at: number, value: number): Buffer =>
  peerFrame(0x3f, [aid], 2, at, `${sensor}|K|${peerText(BigInt(value) * 10_000n)}`)

/** Slave 3: registers 0 and 1 contain how often it was queried. */
export class CountingSlave {
  queries = 0
  #heard = Buffer.alloc(0)

  /** The answers to the queries that end in `bytes`. */
  answers(bytes: Uint8Array): Buffer[] {
    const answers: Buffer[] = []
    this.#heard = Buffer.concat([this.#heard, bytes])
    for (; this.#heard.length >= 8; this.#heard = this.#heard.subarray(8)) {
      const answer = Buffer.of(3, 3, 4, 0, 0, 0, 0, 0, 0)
      answer.writeUInt32BE(++this.queries, 3)
      answer.writeUInt16LE(crc(answer.subarray(0, 7)), 7)
      answers.push(answer)
    }
    return answers
  }
}
