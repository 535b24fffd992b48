// CAN inside the rig: when a program that binds its socket without a word has done so.
import { readFileSync } from 'node:fs'
import { until } from './gateway'

/** What programs and drivers of the rig listen for on CAN buses, as the kernel counts it. */
const receivers = (): number =>
  Number(/(\d+) current receive list entries/.exec(readFileSync('/proc/net/can/stats', 'utf8'))?.[1])

/** Starts a program by `start`; settles when it listens. Nobody else may open or close a CAN socket meanwhile. */
export async function listening<T>(start: () => T): Promise<T> {
  const before = receivers()
  const started = start()
  await until('it listens', () => receivers() > before)
  return started
}
