// A command's readings in a running gateway: they go through the intake into the log like any others, and the answer tells
// how the uplink sent them. A medium named on purpose that no uplink uses gets a packet of its own beside.
import { OsError } from '../lib/errors'
import type { Reading } from '../pipeline/fact'
import type { Gateway } from './gateway'

/** The part of the library's node that is needed here. */
export interface DispatchNode {
  transmit(
    sensors: readonly Reading[],
    deviceId: string | null,
    deviceStatus: string,
  ): readonly [packet: Uint8Array, assigned_id: number, strategy: string]
  dispatch(packet: Uint8Array, medium: string): Promise<boolean>
  readonly transporterManager: { getDriver(medium: string): unknown }
}

export interface TransmitRequest {
  readonly sensors: readonly Reading[]
  readonly device_id?: string
  readonly device_status?: string
  readonly medium?: string
}

export interface TransmitOutcome {
  readonly packet: Uint8Array
  readonly assigned_id: number
  readonly strategy: string
  readonly sent: boolean
  readonly dispatch_path: 'driver' | 'none'
  readonly rejected: readonly { row: number; code: string; error: string }[]
}

/** how long a command waits for its packet to leave */
const WAIT_MS = 5000

/** Throws NO_ASSIGNED_ID, NO_DRIVER, ALL_READINGS_REFUSED, BAD_ID. */
export async function transmitThrough(
  gateway: Gateway,
  node: DispatchNode,
  { sensors, device_id, device_status, medium }: TransmitRequest,
): Promise<TransmitOutcome> {
  if (!gateway.identity.assigned)
    throw new OsError(
      'NO_ASSIGNED_ID',
      `[transmit] Device '${device_id ?? gateway.identity.deviceId}' has no assigned physical ID. Call ensure_id() first.`,
    )
  const wanted = medium?.toLowerCase()
  // refused before the readings are kept: who asked for a medium wants them nowhere else
  const isUplink = gateway.uplinks.list.some(uplink => uplink.medium.toLowerCase() === wanted)
  if (medium !== undefined && !isUplink && node.transporterManager.getDriver(medium) === null)
    throw new OsError('NO_DRIVER', `No available driver: ${medium}`)
  const submitted = gateway.submit(sensors, { device_id, device_status })
  const rejected = submitted.rejected.map(({ index, code, reason }) => ({ row: index, code, error: reason }))
  const assigned_id = gateway.identity.assignedId
  const outcome = (packet: Uint8Array, sent: boolean): TransmitOutcome => ({
    packet,
    assigned_id,
    strategy: packet[0] === 0x3f || packet[0] === 0x40 ? 'FULL_PACKET' : 'DIFF_PACKET',
    sent,
    dispatch_path: sent ? 'driver' : 'none',
    rejected,
  })
  const { carrying, watchers } = gateway.uplinks
  // with none named it is enough that one may carry soon
  const carried = wanted === undefined || carrying?.medium.toLowerCase() === wanted
  if (carried) {
    const seq = submitted.seqs[0]!
    // the caller waits for the answer: what it says is kept is on flash early
    gateway.log.committed(seq).catch(() => undefined) // lost by a full disk: the wait below ends unsent
    const packet = await new Promise<Uint8Array | null>(resolve => {
      const timer = setTimeout(() => {
        watchers.unwatch(seq)
        resolve(null)
      }, WAIT_MS)
      watchers.watch(seq, info => {
        clearTimeout(timer)
        resolve(info.packet)
      })
    })
    if (packet) return outcome(packet, true)
  }
  const [packet] = node.transmit(sensors, device_id ?? gateway.identity.deviceId, device_status ?? 'ONLINE')
  if (carried || wanted === undefined) return outcome(packet, false)
  return outcome(packet, await node.dispatch(packet, medium!))
}
