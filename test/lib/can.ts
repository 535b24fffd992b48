// CAN inside the rig: detects when a program has bound its socket.
import { readFileSync } from 'node:fs'
import { until } from './gateway'

/** The number of CAN receivers in the kernel, for programs and drivers of the rig. */
const receivers = (): number =>
  Number(/(\d+) current receive list entries/.exec(readFileSync('/proc/net/can/stats', 'utf8'))?.[1])

/** Starts a program with `start`; settles when it listens. No other CAN socket may be opened or closed meanwhile. */
export async function listening<T>(start: () => T): Promise<T> {
  const before = receivers()
  const started = start()
  await until('it listens', () => receivers() > before)
  return started
}
