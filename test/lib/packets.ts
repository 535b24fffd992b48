// Looking into what travels: for taps and assertions.
import { parseFrame } from '../../src/protocol/delivery'

/** A delivery frame's packets, or the packet itself. */
export function packetsIn(bytes: Uint8Array): Uint8Array[] {
  const frame = parseFrame(bytes)
  if (!frame) return [bytes]
  return Array.from({ length: frame.n }, () => frame.packets.view(frame.packets.u16()))
}
