// Packets on a serial line in the reference's form: `02 packet 03` on UART, `02 packet LRC 03` on RS485, LRC = byte sum
// mod 256. Neither is transparent: a stream needs a deframer (decision 0029), which relies on checksums instead.

const START = 0x02
const STOP = 0x03

/** Sum of all bytes modulo 256. */
export function lrc(bytes: Uint8Array, start = 0, end = bytes.length): number {
  let sum = 0
  for (let i = start; i < end; i++) sum = (sum + bytes[i]!) & 0xff
  return sum
}

export type SerialFraming = 'uart' | 'rs485'

/** One packet with its frame, in a new buffer. */
export function frameSerial(packet: Uint8Array, framing: SerialFraming): Buffer {
  const extra = framing === 'rs485' ? 1 : 0
  const out = Buffer.allocUnsafe(packet.length + 2 + extra)
  out[0] = START
  out.set(packet, 1)
  if (extra) out[packet.length + 1] = lrc(packet)
  out[out.length - 1] = STOP
  return out
}

/** The packet inside exactly one frame, as a view; null if the frame is incomplete or its LRC is wrong. */
export function unframeSerial(frame: Uint8Array, framing: SerialFraming): Uint8Array | null {
  const extra = framing === 'rs485' ? 1 : 0
  const end = frame.length - 1 - extra
  if (end < 1 || frame[0] !== START || frame[frame.length - 1] !== STOP) return null
  if (extra && lrc(frame, 1, end) !== frame[end]) return null
  return frame.subarray(1, end)
}
