// Options of the RS485 medium, as in Config.json: meaning, bounds and defaults.
import * as v from 'valibot'
import { choice, flag, int, list, maxPacket, maybeInt } from '../../src/config/fields'
import { serialEntries } from '../serial/serial-options'

const aid = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(4_294_967_294))

export const rs485Options = v.object({
  mode: choice(['send', 'listen'], 'send', 'send: an uplink or dispatch; listen: a receiver. Both may use one bus'),
  ...serialEntries(9600),
  direction: choice(
    ['kernel', 'auto_hardware'],
    'kernel',
    'who switches sender and receiver: the driver of the UART by RTS, or an adapter that does it automatically (most USB ones)',
  ),
  rts_on_send: flag(true, 'direction kernel: level of RTS while sending; the other one after it'),
  delay_before_ms: int(0, 'direction kernel: delay between RTS and the first bit', { max: 100 }),
  delay_after_ms: int(0, 'direction kernel: delay between the last bit and RTS', { max: 100 }),
  turnaround_ms: maybeInt('silence before this end sends; left out: 3.5 characters, at least 5 ms', { max: 1000 }),
  role: choice(
    ['point_to_point', 'master', 'slave'],
    'point_to_point',
    'point_to_point: two ends; master: polls each of slaves in turn; slave: sends only when polled',
  ),
  slaves: list(aid, 'role master: the addresses (AIDs) that are polled'),
  // shared text of all media with this key: a link documents it once
  address: int(0, 'of a slave: the address it answers to, 0: its AID; on a SLIP line: the IPv4 address of this end', {
    max: 4_294_967_294,
  }),
  turn_timeout_ms: int(250, 'role master: time limit for an answer, and longest gap inside it', {
    min: 10,
    max: 10_000,
  }),
  turn_bytes: int(1024, 'role master: most bytes per turn of a slave', { min: 64, max: 65_535 }),
  poll_interval_ms: int(100, 'role master: delay between two polling rounds when no slave has more packets', {
    max: 60_000,
  }),
  max_packet: maxPacket(256, 4096),
  gap_ms: maybeInt('silence that ends a packet; left out: from the baud rate', {
    min: 2,
    max: 5000,
  }),
})

export type Rs485Options = v.InferOutput<typeof rs485Options>
