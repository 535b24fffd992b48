// The kernel's state of a CAN interface, read by netlink without waiting and without rights: whether it is up, the
// state of the bus, the controller's error counters; and notification of every change. Errors: NOT_FOUND (no such
// interface), E_NO_ADDON, LINK_DOWN.
import { nativeError } from './errors'
import { native } from './index'
import { NativeSocket, READABLE } from './socket'

/** State of the bus according to the controller; 'unknown' if the driver does not report it (virtual interfaces). */
export type CanState =
  | 'error-active'
  | 'error-warning'
  | 'error-passive'
  | 'bus-off'
  | 'stopped'
  | 'sleeping'
  | 'unknown'
const STATES: readonly CanState[] = ['error-active', 'error-warning', 'error-passive', 'bus-off', 'stopped', 'sleeping']

export interface CanLink {
  index: number
  /** configured up, and running: a bus that is off, or has no other node, is not running */
  up: boolean
  running: boolean
  /** accepts FD frames */
  fd: boolean
  kind: 'can' | 'virtual' | 'other'
  state: CanState
  /** error counters of the controller (0–255); 0 if it reports none */
  tx_errors: number
  rx_errors: number
  /** bits per second; 0: not set, or virtual */
  bitrate: number
  data_bitrate: number
  /** ms from bus-off to the restart by the kernel; 0: no restart */
  restart_ms: number
  /** since the interface was created */
  bus_errors: number
  warnings: number
  passives: number
  bus_offs: number
  arbitration_lost: number
  restarts: number
}

/** the numbers of the addon's answer from place FIRST_COUNT on */
const COUNTS = [
  ...(['tx_errors', 'rx_errors', 'bitrate', 'data_bitrate', 'restart_ms', 'bus_errors'] as const),
  ...(['warnings', 'passives', 'bus_offs', 'arbitration_lost', 'restarts'] as const),
]
const FIRST_COUNT = 5
const CANFD_MTU = 72
const IFF_UP = 0x1
const IFF_RUNNING = 0x40

/** The kernel's state of an interface, without waiting. Throws NOT_FOUND, E_NO_ADDON or LINK_DOWN. */
export function canLink(name: string): CanLink {
  const out = new Uint32Array(FIRST_COUNT + COUNTS.length)
  const result = native().addon.canLink(name, out)
  if (result < 0) throw nativeError(result, 'netlink', name)
  const [index, flags, mtu, kind, state] = out as unknown as [number, number, number, number, number]
  const counts = Object.fromEntries(COUNTS.map((count, k) => [count, out[FIRST_COUNT + k]]))
  return {
    index,
    up: (flags & IFF_UP) !== 0,
    running: (flags & IFF_RUNNING) !== 0,
    fd: mtu >= CANFD_MTU,
    kind: (['other', 'virtual', 'can'] as const)[kind] ?? 'other',
    state: STATES[state] ?? 'unknown',
    ...(counts as Pick<CanLink, (typeof COUNTS)[number]>),
  }
}

/**
 * Calls `changed` when any interface of this machine is added, removed or changed, until closed. Throws E_NO_ADDON or
 * the system's error.
 */
export function linkChanges(changed: () => void): { close(): void } {
  const { addon } = native()
  const socket = new NativeSocket(addon, addon.openLinkChanges())
  const slab = new Uint8Array(16 * 256)
  const lengths = new Uint32Array(16)
  socket.watch(READABLE, () => {
    // a truncated or lost message is a change too
    socket.receive(slab, lengths, null)
    changed()
  })
  return socket
}
