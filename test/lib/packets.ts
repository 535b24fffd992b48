// Looking into what travels: for taps and assertions.
import { parseFrame } from '../../src/protocol/delivery'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../src/wire/frame'

/** A delivery frame's packets, or the packet itself. */
export function packetsIn(bytes: Uint8Array): Uint8Array[] {
  const frame = parseFrame(bytes)
  if (!frame) return [bytes]
  return Array.from({ length: frame.n }, () => frame.packets.view(frame.packets.u16()))
}

/** A data frame (0x3F) of AID 5 that differs with `number`. */
export function dataPacket(number: number): Uint8Array {
  const body = Buffer.from(`A.ONLINE.${number}|t>OK.K:${number}|`)
  const out = new Uint8Array(FRAME_OVERHEAD + body.length)
  const at = writeHeader(out, 0, 0x3f, 5, 1, 1_710_000_000_000 + number)
  out.set(body, at)
  sealFrame(out, 0, at, at + body.length)
  return out
}
