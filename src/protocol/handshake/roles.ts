// The packets a node accepts and sends in each role (`Node_Setting.device_role`, docs/protocol.md "Roles"): a tx_only node
// answers no requests; an rx_only node sends no data packets and no requests, only answers. Pure tables.
import { OsError } from '../../lib/errors'
import { ANSWERS, COMMAND } from '../../wire/commands'

export type DeviceRole = 'duplex' | 'tx_only' | 'rx_only'

const IGNORED_CONTROL: Record<DeviceRole, ReadonlySet<number>> = {
  duplex: new Set(),
  tx_only: new Set([COMMAND.ID_REQUEST, COMMAND.ID_POOL_REQ, COMMAND.PING, COMMAND.TIME_REQUEST]),
  rx_only: new Set([
    COMMAND.ID_REQUEST,
    COMMAND.ID_ASSIGN,
    COMMAND.ID_POOL_REQ,
    COMMAND.ID_POOL_RES,
    COMMAND.PONG,
    COMMAND.TIME_RESPONSE,
    COMMAND.SECURE_DICT_READY,
    COMMAND.SECURE_CHANNEL_ACK,
  ]),
}

/** Whether a node of that role ignores a control packet. */
export const ignoresControl = (role: DeviceRole, cmd: number): boolean => IGNORED_CONTROL[role].has(cmd)

/** Why a node of that role does not send a packet that begins with `cmd`; null if it may. */
export const sendRefusal = (role: DeviceRole, cmd: number | undefined): OsError | null =>
  role === 'rx_only' && !ANSWERS.has(cmd ?? 0)
    ? new OsError('RX_ONLY', 'this node sends no data packets and no requests: Node_Setting.device_role is rx_only')
    : null
