// Reassembles J1939 messages of more than 8 bytes from the frames of the transport protocol (J1939-21): announced as a
// broadcast (BAM), or to one station that controls the flow (RTS/CTS). This code only listens: it requests no
// retransmission.
//
// Errors: a lost frame leaves its message incomplete; the message is dropped (counted) on a time-out, an abort or a new
// announcement. The number of simultaneous messages is fixed; a new one evicts the one that is silent longest.
import { MAX_BYTES } from './model'

/** parameter groups of the protocol's control and data frames */
export const TP_CONTROL = 0xec00
export const TP_DATA = 0xeb00

const RTS = 16
const BAM = 32
const ABORT = 255
/** a receiver's time-out for the next frame of a message (T2) */
const SILENCE_MS = 1250
const SESSIONS = 32
/** payload bytes of a data frame, after its number */
const PIECE = 7

class TransportSession {
  /** source and destination; -1: free */
  key = -1
  pgn = 0
  size = 0
  packets = 0
  missing = 0
  /** monotonic ms */
  at = 0
  readonly data = new Uint8Array(PIECE * 255)
  readonly got = new Uint8Array(256)
}

export class J1939Transport {
  /** messages announced but never completed */
  incomplete = 0
  readonly #sessions: TransportSession[] = []
  readonly #wanted: (pgn: number) => boolean
  readonly #onMessage: (pgn: number, source: number, data: Uint8Array) => void

  /** `data` of onMessage is valid only during the call. */
  constructor(wanted: (pgn: number) => boolean, onMessage: (pgn: number, source: number, data: Uint8Array) => void) {
    this.#wanted = wanted
    this.#onMessage = onMessage
  }

  /** A frame of TP_CONTROL. */
  control(source: number, destination: number, data: Uint8Array, now: number): void {
    if (data.length < 8) return
    const kind = data[0]!
    const pgn = data[5]! | (data[6]! << 8) | (data[7]! << 16)
    const key = (source << 8) | destination
    if (kind === ABORT) {
      // either side may abort
      this.#giveUp(key, pgn)
      this.#giveUp((destination << 8) | source, pgn)
      return
    }
    if ((kind !== BAM && kind !== RTS) || !this.#wanted(pgn)) return
    const size = data[1]! | (data[2]! << 8)
    const packets = data[3]!
    if (size < 9 || size > MAX_BYTES || packets !== Math.ceil(size / PIECE)) return
    const session = this.#session(key, now)
    session.pgn = pgn
    session.size = size
    session.packets = packets
    session.missing = packets
    session.at = now
    session.got.fill(0)
  }

  /** A frame of TP_DATA. */
  data(source: number, destination: number, data: Uint8Array, now: number): void {
    const session = this.#find((source << 8) | destination)
    if (!session || data.length < 8) return
    if (now - session.at > SILENCE_MS) {
      this.#free(session)
      return
    }
    const number = data[0]!
    if (number < 1 || number > session.packets) return
    session.at = now
    if (session.got[number] === 1) return // retransmitted
    session.got[number] = 1
    for (let k = 0; k < PIECE; k++) session.data[(number - 1) * PIECE + k] = data[k + 1]!
    if (--session.missing > 0) return
    session.key = -1
    this.#onMessage(session.pgn, source, session.data.subarray(0, session.size))
  }

  #giveUp(key: number, pgn: number): void {
    const session = this.#find(key)
    if (session?.pgn === pgn) this.#free(session)
  }

  #free(session: TransportSession): void {
    session.key = -1
    this.incomplete++
  }

  #find(key: number): TransportSession | undefined {
    for (const session of this.#sessions) if (session.key === key) return session
    return undefined
  }

  /** Restarts the session of a pair of stations, or takes a free one, or the one that is silent longest. */
  #session(key: number, now: number): TransportSession {
    for (const session of this.#sessions)
      if (session.key >= 0 && (session.key === key || now - session.at > SILENCE_MS)) this.#free(session)
    let session = this.#find(-1)
    if (!session && this.#sessions.length < SESSIONS) {
      session = new TransportSession()
      this.#sessions.push(session)
    }
    if (!session) {
      session = this.#sessions.reduce((oldest, other) => (other.at < oldest.at ? other : oldest))
      this.#free(session)
    }
    session.key = key
    return session
  }
}
