// The two NACK texts that os-node peers add: NEED_FULL (the receiver lacks the template, X9) and BAD_KEY (a secure frame did
// not decrypt, X7). Both are sent in a NACK with seq 0 and name the refused frame: `<word>;<aid>;<tid>;<ts>;<crc16>`, numbers
// in decimal without padding, crc16 as 4 lower-case hex digits. A text of any other format is not one of them (null).
import { type FrameHeader, readHeader } from '../wire/frame'

export interface RefusedFrame {
  readonly reason: 'NEED_FULL' | 'BAD_KEY'
  readonly aid: number
  readonly tid: number
  /** the 48-bit TS field of the refused frame */
  readonly ts: number
  /** the refused frame's last two bytes */
  readonly crc16: number
}

/** What a refusal names of a frame. */
export type FrameName = Omit<RefusedFrame, 'reason'>

/** the refused frame's last two bytes as a number */
export const crc16Of = (packet: Uint8Array): number => (packet[packet.length - 2]! << 8) | packet[packet.length - 1]!

export const frameName = (packet: Uint8Array, { sourceAid: aid, tid, ts }: FrameHeader): FrameName => ({
  ...{ aid, tid, ts },
  crc16: crc16Of(packet),
})

export const refusedFrameText = ({ reason, aid, tid, ts, crc16 }: RefusedFrame): string =>
  `${reason};${aid};${tid};${ts};${crc16.toString(16).padStart(4, '0')}`

/** The text for a packet, with its TS field unchanged; null if the packet is shorter than its header. */
export function nackReason(reason: RefusedFrame['reason'], packet: Uint8Array): string | null {
  const header = readHeader(packet)
  return typeof header === 'string' ? null : refusedFrameText({ reason, ...frameName(packet, header) })
}

const FORM = /^(NEED_FULL|BAD_KEY);(0|[1-9]\d{0,9});(0|[1-9]\d{0,2});(0|[1-9]\d{0,14});([0-9a-f]{4})$/

/** The refused frame in a NACK text, or null if the text has another format or a number is out of range. */
export function parseRefusedFrame(text: string): RefusedFrame | null {
  const match = FORM.exec(text)
  if (!match) return null
  const [, reason, aid, tid, ts, crc] = match
  const refused: RefusedFrame = {
    reason: reason as RefusedFrame['reason'],
    aid: Number(aid),
    tid: Number(tid),
    ts: Number(ts),
    crc16: Number.parseInt(crc!, 16),
  }
  return refused.aid <= 0xffffffff && refused.tid <= 0xff && refused.ts < 2 ** 48 ? refused : null
}
