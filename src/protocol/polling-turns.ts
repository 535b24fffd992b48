// Polling on a shared bus (RS485): the master polls the stations in turn, and a station sends only when polled.
//
//   poll   [09][seq u16] 4F 53 4E 02 aid u32 bytes u16    PING with the station and how many bytes it may send
//   end    [0A][seq u16] 4F 53 4E 02 aid u32 waiting u8   PONG: its turn is over; number of waiting packets (255: or more)
//
// A peer that does not support them ignores the poll, or answers a bare PONG with the seq; that ends its turn as well. The
// byte 02 differs from the probe of the delivery exchange (X29: 01). Nothing here throws.
import { COMMAND } from '../wire/commands'
import { ByteReader, ByteWriter } from '../wire/cursor'

export const POLL_SIZE = 13
export const TURN_END_SIZE = 12

const MAGIC = Uint8Array.of(0x4f, 0x53, 0x4e, 0x02)
const hasMagic = (raw: Uint8Array): boolean => MAGIC.every((byte, k) => raw[3 + k] === byte)

export const buildPoll = (seq: number, aid: number, bytes: number): Uint8Array =>
  new ByteWriter(new Uint8Array(POLL_SIZE)).u8(COMMAND.PING).u16(seq).put(MAGIC).u32(aid).u16(bytes).done()

export const buildTurnEnd = (seq: number, aid: number, waiting: number): Uint8Array =>
  new ByteWriter(new Uint8Array(TURN_END_SIZE))
    .u8(COMMAND.PONG)
    .u16(seq)
    .put(MAGIC)
    .u32(aid)
    .u8(Math.min(255, waiting))
    .done()

export const isPoll = (raw: Uint8Array): boolean => raw[0] === COMMAND.PING && raw.length === POLL_SIZE && hasMagic(raw)

export const isTurnEnd = (raw: Uint8Array): boolean =>
  raw[0] === COMMAND.PONG && raw.length === TURN_END_SIZE && hasMagic(raw)

export interface Poll {
  readonly seq: number
  readonly aid: number
  /** how many bytes the station may send, frames included */
  readonly bytes: number
}

export function parsePoll(raw: Uint8Array): Poll | null {
  if (!isPoll(raw)) return null
  return { seq: new ByteReader(raw, 1).u16(), aid: new ByteReader(raw, 7).u32(), bytes: new ByteReader(raw, 11).u16() }
}

export interface TurnEnd {
  readonly seq: number
  readonly aid: number
  readonly waiting: number
}

export function parseTurnEnd(raw: Uint8Array): TurnEnd | null {
  if (!isTurnEnd(raw)) return null
  return { seq: new ByteReader(raw, 1).u16(), aid: new ByteReader(raw, 7).u32(), waiting: raw[11]! }
}
