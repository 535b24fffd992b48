// Decrypts packets of secure sessions, for forwarding. Nothing here throws: a packet that cannot be decrypted reliably is
// null.
import { isUtf8 } from 'node:buffer'
import { COMMAND, isSecure } from '../../wire/commands'
import { readHeader, rekeyFrame } from '../../wire/frame'

/**
 * A data packet in plaintext: unchanged if it is plaintext, else decrypted, with a new command byte and CRC-16. Null unless
 * exactly one key of its sender fits: CRC-8 alone accepts one wrong key in 256.
 */
export function readable(packet: Uint8Array, keysOf: (aid: number) => readonly Uint8Array[]): Uint8Array | null {
  if (!isSecure(packet[0] ?? 0)) return packet
  const header = readHeader(packet)
  if (typeof header === 'string' || !header.crc16Ok) return null
  const { sourceAid, body, end, cmd } = header
  // an empty body fits every key and needs none
  if (body === end) return rekeyFrame(packet, null, null)
  const full = cmd === COMMAND.DATA_FULL_SEC
  const fits = new Map<string, Uint8Array>()
  for (const key of keysOf(sourceAid)) {
    const plain = rekeyFrame(packet, key, null)
    if (plain && (!full || isText(plain.subarray(body, end)))) fits.set(Buffer.from(key).toString('hex'), plain)
  }
  return fits.size === 1 ? fits.values().next().value! : null
}

/** Whether the body may be the text of a FULL: noise is not UTF-8 or contains control characters. */
function isText(body: Uint8Array): boolean {
  if (body.some(byte => byte < 0x20)) return false
  return isUtf8(body)
}
