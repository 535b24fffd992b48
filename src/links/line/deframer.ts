// Bytes of a serial line → packets (decision 0029): `02 packet 03` on UART, `02 packet LRC 03` on RS485. Neither is transparent,
// so delimiters alone prove nothing. A data frame, a delivery frame or its answer is accepted if its CRC-16 (and the
// LRC) is right; the outermost of such spans wins, and its inside is not examined again. A control packet is accepted
// if it matches its layout exactly and is in no such span; an answer additionally needs an open request.
//
// Every `02` before a known command byte is a candidate. The earliest candidate is judged when it can grow no more: it
// has the maximum length, the line fell silent (idle), or its own length field is reached. So the result never depends
// on how the bytes were split into chunks.
//
// Errors: noise, lost bytes and false starts affect only the packets they touch. Memory is two largest packets and 128
// candidates; further candidates are not opened and counted as `crowded`. A byte costs at most one step per open
// candidate.
import { DELIVERY_FRAME } from '../../protocol/control'
import { ANSWER_SIZE } from '../../protocol/delivery'
import { COMMAND, isData } from '../../wire/commands'
import { crc16Byte } from '../../wire/crc'
import { lrc, type SerialFraming } from '../../wire/serial'
import { fitsLayout, largest, layoutOf } from './layouts'

const START = 0x02
const STOP = 0x03
const MAX_OPEN = 128
/** offset of the packet count in a delivery frame */
const COUNT_AT = 13

export interface DeframerOptions {
  /** largest packet in bytes that is detected */
  maxPacket: number
  /** whether an answer of that command with that seq is expected */
  isOpen: (answer: number, seq: number) => boolean
  /** `packet` is valid only during the call */
  onPacket: (packet: Uint8Array) => void
}

/** The interface of any deframer for the medium. */
export interface Deframer {
  push(chunk: Uint8Array): void
  /** The line is silent: candidates that wait for more bytes are judged now. */
  idle(): void
  /** A byte had an error: complete packets without it are accepted, candidates that wait for more are dropped. */
  damaged(): void
  /** The line was reopened: candidates are dropped. */
  reset(): void
  /** a candidate waits for more bytes or for silence */
  readonly waiting: boolean
  readonly counters: DeframerCounters
}

export interface DeframerCounters {
  packets: number
  bytes: number
  /** bytes of packets; `bytes - taken` belonged to none */
  taken: number
  /** candidates not opened, because too many were open */
  crowded: number
  /** checks of candidates, over all bytes */
  steps: number
}

type Kind = 'data' | 'delivery' | 'answer' | 'control'

class Candidate {
  /** packets that may still grow are not judged */
  done = false
  /** offset after the last byte of the longest valid frame, -1 if there is none yet */
  end = -1
  crc = 0xffff
  sum = 0
  last = 0
  /** CRC without the last two bytes, for the part before an LRC */
  crcBefore = 0xffff
  sumBefore = 0
  /** smallest and largest packet; equal if the length is known */
  min: number
  max: number
  /** delivery frame: remaining packets, and the offset of the next length */
  left = 0
  lengthAt = COUNT_AT + 1
  /** control: offset of the text, and number of non-text characters in it */
  readonly text: number
  strange = 0

  constructor(
    readonly kind: Kind,
    /** of the 02 */
    readonly start: number,
    max: number,
    text = Number.POSITIVE_INFINITY,
  ) {
    this.max = kind === 'answer' ? ANSWER_SIZE : max
    // a delivery frame is not judged before its lengths are known
    this.min = kind === 'answer' ? ANSWER_SIZE : kind === 'delivery' ? max : 3
    this.text = text
  }
}

export class SerialDeframer implements Deframer {
  readonly counters: DeframerCounters = { packets: 0, bytes: 0, taken: 0, crowded: 0, steps: 0 }
  readonly #options: DeframerOptions
  /** 1 if an LRC precedes the 03 */
  readonly #lrc: 0 | 1
  readonly #buffer: Uint8Array
  /** position in the stream of the first byte in the buffer */
  #base = 0
  /** position in the stream of the next byte */
  #at = 0
  #last = 0
  #open: Candidate[] = []

  constructor(framing: SerialFraming, options: DeframerOptions) {
    this.#options = options
    this.#lrc = framing === 'rs485' ? 1 : 0
    this.#buffer = new Uint8Array(2 * (options.maxPacket + 4))
  }

  get waiting(): boolean {
    return this.#open.length > 0
  }

  push(chunk: Uint8Array): void {
    this.counters.bytes += chunk.length
    for (let k = 0; k < chunk.length; k++) this.#byte(chunk[k]!)
  }

  idle(): void {
    for (const candidate of this.#open) candidate.done = true
    this.#last = 0
    this.#judge()
  }

  damaged(): void {
    this.idle()
  }

  reset(): void {
    this.#open = []
    this.#last = 0
  }

  #byte(byte: number): void {
    const at = this.#at++
    const place = this.#place(at)
    this.#buffer[place] = byte
    if (this.#last === START) this.#begin(at - 1, byte)
    this.#last = byte
    const open = this.#open
    if (open.length === 0) return
    let judge = false
    for (let k = 0; k < open.length; k++) {
      const candidate = open[k]!
      if (candidate.done) continue
      this.counters.steps++
      const offset = at - candidate.start - 1
      if (candidate.kind === 'control') this.#control(candidate, offset, byte)
      else this.#checked(candidate, offset, byte)
      if (candidate.done) judge = true
    }
    if (judge) this.#judge()
  }

  /** Index where a byte is stored; old bytes are dropped when the buffer is full. */
  #place(at: number): number {
    if (at - this.#base === this.#buffer.length) {
      // the previous byte may be a start that is not known yet
      const keep = Math.min(this.#open[0]?.start ?? at, at - 1)
      this.#buffer.copyWithin(0, keep - this.#base)
      this.#base = keep
    }
    return at - this.#base
  }

  #begin(start: number, cmd: number): void {
    const { maxPacket } = this.#options
    if (isData(cmd)) this.#add(new Candidate('data', start, maxPacket))
    else if (cmd === DELIVERY_FRAME) this.#add(new Candidate('delivery', start, maxPacket))
    else {
      if (cmd === COMMAND.HANDSHAKE_ACK) this.#add(new Candidate('answer', start, maxPacket))
      const layout = layoutOf(cmd)
      if (layout)
        this.#add(new Candidate('control', start, Math.min(maxPacket, largest(cmd, layout, maxPacket)), layout.text))
    }
  }

  #add(candidate: Candidate): void {
    if (this.#open.length < MAX_OPEN) this.#open.push(candidate)
    else this.counters.crowded++
  }

  /** Next byte of a packet with a CRC. */
  #checked(c: Candidate, offset: number, byte: number): void {
    const size = offset - this.#lrc
    if (byte === STOP && size >= c.min && size <= c.max) {
      const whole = this.#lrc ? c.crcBefore === 0 && c.sumBefore === c.last : c.crc === 0
      if (whole) c.end = c.start + offset + 2
    }
    c.crcBefore = c.crc
    c.sumBefore = c.sum
    c.crc = crc16Byte(c.crc, byte)
    c.sum = (c.sum + byte) & 0xff
    if (c.kind === 'data') {
      if (offset === 1) c.min = 12 + 4 * byte
    } else if (c.kind === 'delivery') this.#lengths(c, offset, byte)
    else if ((offset === 1 || offset === 2) && byte !== 0) c.done = true
    c.last = byte
    if (size >= c.max || c.min > this.#options.maxPacket) c.done = true
  }

  /** A delivery frame contains its own length, packet by packet. */
  #lengths(c: Candidate, offset: number, byte: number): void {
    if (offset === COUNT_AT) c.left = byte
    else if (offset === c.lengthAt + 1 && c.left > 0) {
      const length = (c.last << 8) | byte
      c.lengthAt += 2 + length
      c.left--
      if (length === 0 || c.lengthAt + 2 > this.#options.maxPacket) c.done = true
    } else return
    if (c.left === 0) c.min = c.max = c.lengthAt + 2
  }

  /** Next byte of a packet without checksum. */
  #control(c: Candidate, offset: number, byte: number): void {
    const size = offset - this.#lrc
    if (byte === STOP && size >= 3 && this.#fits(c, size)) {
      c.end = c.start + offset + 2
      c.done = true
      return
    }
    if (offset >= c.text) {
      // text has no control characters; the LRC after it may be one
      if (c.strange > 0 || (byte < 0x20 && ++c.strange > this.#lrc)) c.done = true
    }
    if (size >= c.max) c.done = true
  }

  #fits(c: Candidate, size: number): boolean {
    const from = c.start + 1 - this.#base
    const packet = this.#buffer.subarray(from, from + size)
    if (this.#lrc && this.#buffer[from + size] !== lrc(packet)) return false
    return fitsLayout(packet, this.#options.isOpen)
  }

  /** Judges the earliest candidates that are complete. */
  #judge(): void {
    while (this.#open[0]?.done) {
      const { kind, start, end } = this.#open.shift()!
      if (end < 0) continue
      // a frame with a checksum contains everything that begins in it; a control packet only other control packets
      if (this.#open.length > 0)
        this.#open = this.#open.filter(other => other.start >= end || (kind === 'control' && other.kind !== 'control'))
      this.counters.packets++
      this.counters.taken += end - start
      const from = start + 1 - this.#base
      this.#options.onPacket(this.#buffer.subarray(from, from + end - start - 2 - this.#lrc))
    }
  }
}
