// Passes a received packet to its handler, in the same way for every medium: the packet is counted, and an error of the
// handler affects only this packet.
import { asOsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { PacketHandler, PacketOrigin } from './contracts'

/** Calls the handler. Its error is counted as an error of the medium and logged. Runs once per packet received. */
export function deliver(
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
    logger.error(`handling a packet from ${origin.address} failed: ${asOsError(error).message}`)
  }
}

/** A medium with one handler of its received packets. */
export abstract class PacketReceiver {
  protected handler: PacketHandler = () => undefined

  /** Sets the only handler; a second call replaces it. */
  onPacket(handler: PacketHandler): void {
    this.handler = handler
  }
}
