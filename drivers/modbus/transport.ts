// What carries Modbus requests: a serial line or a TCP connection. One request is on its way at a time; bus.ts sees to that.
import { OsError } from '../../src/lib/errors'
import type { OpenableEvents } from '../../src/links/contracts'

export interface Transport {
  open(events: OpenableEvents): Promise<void>
  close(): Promise<void>
  /**
   * Sends `request` to a slave and resolves with the PDU that answers it, data or exception, valid until the next
   * exchange. Throws NO_REPLY (nothing came in time), BAD_REPLY (it was damaged), LINK_DOWN.
   */
  exchange(unit: number, request: Uint8Array, timeoutMs: number): Promise<Uint8Array>
  /** see Openable */
  onReturn?(back: () => void): () => void
  /** bytes that came with a wrong parity or stop bit, where the transport knows */
  readonly damagedBytes?: number
  /** an answer that comes after its time may be taken for the answer to the next request to that slave */
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
