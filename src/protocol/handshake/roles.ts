// What a node takes from the wire in each role (`Node_Setting.device_role`, PROTOCOL §7): a tx_only node serves nobody, an
// rx_only node asks nobody. Pure tables.
import { COMMAND } from '../../wire/commands'

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

/** Whether a node of that role leaves a control packet unanswered and unread. */
export const ignoresControl = (role: DeviceRole, cmd: number): boolean => IGNORED_CONTROL[role].has(cmd)
