// Sends a command's readings in a running gateway. They are logged through the intake like any others, and the answer reports
// how the uplink sent them, or why they wait in the log: for an id, for a link. If the command names a medium that no uplink
// uses, an additional packet is sent over it.
import { within } from '../lib/deadline'
import { OsError } from '../lib/errors'
import { systemTimers } from '../lib/timers'
import type { Reading } from '../pipeline/fact'
import { sendRefusal } from '../protocol/handshake/roles'
import { COMMAND } from '../wire/commands'
import type { Gateway } from './gateway'
import type { SentInfo } from './uplink/watchers'

/** The part of the library's node that is needed here. */
export interface DispatchNode {
  transmit(
    sensors: readonly Reading[],
    deviceId: string | null,
    deviceStatus: string,
  ): readonly [packet: Uint8Array, assigned_id: number, strategy: string]
  dispatch(packet: Uint8Array, medium: string): Promise<boolean>
  readonly transporterManager: { getDriver(medium: string): unknown }
  /** why the last dispatch failed */
  readonly lastError: Error | null
}

export interface TransmitRequest {
  readonly sensors: readonly Reading[]
  readonly device_id?: string
  readonly device_status?: string
  readonly medium?: string
}

export interface TransmitOutcome {
  /** empty while the readings wait: the packet is built when it is sent */
  readonly packet: Uint8Array
  /** 4294967295 while there is none */
  readonly assigned_id: number
  readonly strategy: string
  /** the packet was sent, or the readings are stored for delivery */
  readonly sent: boolean
  /** how; absent if nothing was sent */
  readonly delivery?: 'acknowledged' | 'sent' | 'kept'
  /** why it is not acknowledged, or not sent */
  readonly reason?: string
  readonly dispatch_path: 'driver' | 'none'
  readonly rejected: readonly { row: number; code: string; error: string }[]
}

/** how long a command waits until its packet is sent, and for the answer */
const WAIT_MS = 5000
const NO_PACKET = new Uint8Array()

/** Throws RX_ONLY, NO_ASSIGNED_ID (only for a medium that no uplink uses), NO_DRIVER, ALL_READINGS_REFUSED, BAD_ID. */
export async function transmitThrough(
  gateway: Gateway,
  node: DispatchNode,
  { sensors, device_id, device_status, medium }: TransmitRequest,
): Promise<TransmitOutcome> {
  const refusal = sendRefusal(gateway.deviceRole, COMMAND.DATA_FULL)
  if (refusal) throw refusal
  const { identity, uplinks, guard } = gateway
  const wanted = medium?.toLowerCase()
  // refused before the readings are logged: a caller that names a medium accepts no other
  const isUplink = uplinks.list.some(uplink => uplink.medium.toLowerCase() === wanted)
  if (medium !== undefined && !isUplink) {
    if (node.transporterManager.getDriver(medium) === null)
      throw new OsError('NO_DRIVER', `No available driver: ${medium}`)
    if (!identity.assigned)
      throw new OsError(
        'NO_ASSIGNED_ID',
        `[transmit] Device '${device_id ?? identity.deviceId}' has no assigned physical ID. Call ensure_id() first.`,
      )
  }
  const submitted = gateway.submit(sensors, { device_id, device_status })
  const rejected = submitted.rejected.map(({ index, code, reason }) => ({ row: index, code, error: reason }))
  const assigned_id = identity.assignedId
  const { failure } = gateway.log
  const inRam = failure ? `; kept in RAM only: ${failure.message}` : ''
  const outcome = (
    packet: Uint8Array,
    delivery: TransmitOutcome['delivery'] | null,
    reason?: string,
  ): TransmitOutcome => ({
    packet,
    assigned_id,
    strategy: packet.length === 0 || packet[0] === 0x3f || packet[0] === 0x40 ? 'FULL_PACKET' : 'DIFF_PACKET',
    sent: delivery !== null,
    ...(delivery && { delivery }),
    ...(reason !== undefined && { reason: delivery === 'kept' ? reason + inRam : reason }),
    dispatch_path: delivery === null || delivery === 'kept' ? 'none' : 'driver',
    rejected,
  })
  const { active, watchers } = uplinks
  if (wanted !== undefined && active?.medium.toLowerCase() !== wanted && identity.assigned) {
    const [packet] = node.transmit(sensors, device_id ?? identity.deviceId, device_status ?? 'ONLINE')
    if (await node.dispatch(packet, medium!)) return outcome(packet, 'sent')
    return outcome(packet, null, node.lastError?.message ?? `${medium} did not take the packet`)
  }
  if (guard.safeMode) return outcome(NO_PACKET, 'kept', 'the gateway is in safe mode, its links are off')
  if (uplinks.names.length === 0)
    return outcome(NO_PACKET, null, 'this node has no uplink; the readings are in its own log')
  if (!identity.assigned)
    return outcome(NO_PACKET, 'kept', 'this gateway has no id yet; the readings are sent once the upstream assigns one')
  const seq = submitted.seqs[0]!
  // commit early: the caller waits, and must only report readings as kept that are on flash
  gateway.log.committed(seq).catch(() => undefined) // lost by a full disk: the wait below then reports `kept`, in memory
  let left: SentInfo | null = null
  const final = new Promise<SentInfo>(resolve =>
    watchers.watch(seq, info => {
      left = info
      if (info.state !== 'awaited') resolve(info)
    }),
  )
  const last = await within(systemTimers, WAIT_MS, final, () => {
    watchers.unwatch(seq)
    return left
  })
  if (!last) return outcome(NO_PACKET, 'kept', uplinks.forwarding().reason ?? 'no uplink took the packet within 5 s')
  if (last.state === 'acknowledged') return outcome(last.packet, 'acknowledged')
  const why = last.state === 'sent' ? 'this uplink has no acknowledgements' : 'no acknowledgement came within 5 s'
  return outcome(last.packet, 'sent', why)
}
