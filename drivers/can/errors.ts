// Error frames, and the texts about a faulty bus. Pure: bytes and numbers in, text out. No errors.
import type { CanLink, CanState } from '../../src/native/can-link'

/** classes of error frames: bits of the id */
const TX_TIMEOUT = 0x001
const CONTROLLER = 0x004
const NO_ACK = 0x020
const BUS_OFF = 0x040
const RESTARTED = 0x100
/** error classes requested from the kernel: not every lost arbitration, nor every bit error of a working bus */
export const ERROR_CLASSES = TX_TIMEOUT | CONTROLLER | NO_ACK | BUS_OFF | RESTARTED

/** bits of the controller's byte */
const WARNING = 0x04 | 0x08
const PASSIVE = 0x10 | 0x20
const ACTIVE = 0x40

/** The state in an error frame; undefined if it has none. */
export function stateOf(id: number, data: Uint8Array): CanState | undefined {
  if (id & BUS_OFF) return 'bus-off'
  if (id & RESTARTED) return 'error-active'
  if ((id & CONTROLLER) === 0) return undefined
  const controller = data[1] ?? 0
  if (controller & PASSIVE) return 'error-passive'
  if (controller & WARNING) return 'error-warning'
  return controller & ACTIVE ? 'error-active' : undefined
}

/** What a person should know about a faulty bus; empty: it works. */
export function complaint(name: string, state: CanState, { tx_errors, rx_errors, restart_ms }: CanLink): string {
  const counts = `transmit errors ${tx_errors}, receive errors ${rx_errors}`
  if (state === 'error-warning') return `${name} sees errors (${counts})`
  if (state === 'error-passive')
    return `${name} is error-passive (${counts}): check wiring, termination, bit rate, and that another node is on`
  if (state !== 'bus-off') return ''
  return restart_ms > 0
    ? `${name} is bus-off; the kernel restarts it after ${restart_ms} ms`
    : `${name} is bus-off and not restarted: ${restartAdvice(name)}`
}

const restartAdvice = (name: string): string =>
  `ip link set ${name} type can restart, and RESTART_MS in /etc/os-node/${name}.conf for the next time`

export const startAdvice = (name: string): string =>
  `systemctl start os-node-can@${name}, or: ip link set ${name} up type can bitrate 500000`
