// Options of the UART medium, as in Config.json: meaning, bounds and defaults.
import { type InferOutput, object } from 'valibot'
import { choice, maxPacket, maybeInt } from '../../src/config/fields'
import { serialEntries } from '../serial/serial-options'

/** 1024 bytes are 90 ms at 115200 baud */
const DEFAULT_MAX_PACKET = 1024

export const uartOptions = object({
  mode: choice(['send', 'listen'], 'send', 'send: an uplink or dispatch; listen: a receiver. Both may use one port'),
  ...serialEntries(115_200),
  framing: choice(
    ['uart', 'cobs'],
    'uart',
    'uart: STX packet ETX, understood by every peer; cobs: for os-node at both ends',
  ),
  max_packet: maxPacket(DEFAULT_MAX_PACKET, 16_384),
  gap_ms: maybeInt('silence that ends a packet; left out: from the baud rate', {
    min: 2,
    max: 5000,
  }),
})

export type UartOptions = InferOutput<typeof uartOptions>
