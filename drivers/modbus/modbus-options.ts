// Options of the source types modbus_rtu and modbus_tcp.
import * as v from 'valibot'
import { channelEntries, interval, POLL_MS, sensorId, strict, whole } from '../kit/common-options'
import { serialEntries } from '../serial/serial-options'
import { TYPES, WORD_ORDERS } from './values'

const register = v.pipe(
  strict({
    id: sensorId,
    table: v.optional(v.picklist(['holding', 'input', 'coil', 'discrete']), 'holding'),
    /** as sent on the wire, from 0; see address_base */
    address: whole(0, 65_536),
    /** ignored for coils and discrete inputs, which are bits */
    type: v.optional(v.picklist(TYPES), 'u16'),
    word_order: v.optional(v.picklist(WORD_ORDERS), 'ABCD'),
    /** type bit: the number of the bit, 0 is the lowest */
    bit: v.optional(whole(0, 15)),
    ...channelEntries,
  }),
  v.check(({ type, bit }) => (type === 'bit') === (bit !== undefined), 'bit and type "bit" belong together'),
)

const shared = {
  interval_ms: interval(5000, POLL_MS),
  /** time limit for a slave's answer */
  timeout_ms: v.optional(whole(10, 60_000)),
  /** retries after a damaged answer */
  retries: v.optional(whole(0, 10), 1),
  /** 1: addresses are counted from 1, as many data sheets do */
  address_base: v.optional(v.picklist([0, 1]), 0),
  /** unused registers that may be read to merge two requests */
  gap: v.optional(whole(0, 100), 0),
  /** most registers in one request */
  max_registers: v.optional(whole(1, 125), 125),
  registers: v.pipe(v.array(register), v.minLength(1), v.maxLength(1000)),
}

export const rtuSchema = strict({
  ...shared,
  ...serialEntries(9600),
  port: v.pipe(v.string(), v.minLength(1, 'is required')),
  /** 1 to 247; 0 is the broadcast, which no slave answers */
  slave: whole(1, 247),
  /** silence before a request, in addition to the standard's 3.5 characters */
  pause_ms: v.optional(whole(0, 1000), 0),
  /** how an RS485 transceiver switches direction: automatically, or by RTS from the UART's kernel driver */
  direction: v.optional(v.picklist(['auto', 'kernel']), 'auto'),
  /** direction kernel: RTS is high while sending */
  rts_on_send: v.optional(v.boolean(), true),
})

export const tcpSchema = strict({
  ...shared,
  host: v.pipe(v.string(), v.minLength(1), v.maxLength(255)),
  port: v.optional(whole(1, 65_535), 502),
  /** 255 is the device itself, others are slaves behind a gateway */
  unit_id: v.optional(whole(0, 255), 255),
  connect_timeout_ms: v.optional(whole(100, 60_000), 5000),
})

export type RtuSourceOptions = v.InferOutput<typeof rtuSchema>
export type TcpSourceOptions = v.InferOutput<typeof tcpSchema>
export type SharedOptions = Pick<TcpSourceOptions, keyof typeof shared>
