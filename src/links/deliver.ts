// Delivers a received packet to its handler, the same way in every medium: counted, and a handler that throws costs
// this packet and nothing else.
import { asOsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { PacketHandler, PacketOrigin } from './contracts'

/** Calls the handler. What it throws is counted as an error of the medium and logged. Runs once per packet received. */
export function handOver(
  packet: Uint8Array,
  origin: PacketOrigin,
  handler: PacketHandler,
  counters: { rx: number; errors: number },
  logger: Logger,
): void {
  counters.rx++
  try {
    handler(packet, origin)
  } catch (error) {
    counters.errors++
    logger.error(`a packet of ${origin.address} was not handled: ${asOsError(error).message}`)
  }
}
