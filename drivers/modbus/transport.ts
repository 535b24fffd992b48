// The transport of Modbus requests: a serial line or a TCP connection. bus.ts ensures that only one request is in
// transit at a time.
import { OsError } from '../../src/lib/errors'
import type { OpenableEvents } from '../../src/links/contracts'

export interface ModbusTransport {
  open(events: OpenableEvents): Promise<void>
  close(): Promise<void>
  /**
   * Sends `request` to a slave and resolves with the PDU of the answer, data or exception, valid until the next
   * exchange. Throws NO_REPLY (no answer in time), BAD_REPLY (a damaged answer), LINK_DOWN.
   */
  exchange(unit: number, request: Uint8Array, timeoutMs: number): Promise<Uint8Array>
  /** see Openable */
  onReturn?(back: () => void): () => void
  /** bytes with a parity or framing error, if the transport can detect them */
  readonly damagedBytes?: number
  /** a late answer can be mistaken for the answer to the next request to that slave */
  readonly confuses: boolean
}

export const noReply = (unit: number): OsError =>
  new OsError('NO_REPLY', `no answer from slave ${unit}`, {
    hint: 'check the slave address, baud rate and parity, the wires A and B, and the power of the device',
  })

export const badReply = (unit: number): OsError =>
  new OsError('BAD_REPLY', `damaged answer from slave ${unit}`, {
    hint: 'check baud rate and parity, termination and shield of the bus, and that no slave has the same address',
  })
