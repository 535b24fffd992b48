// A stop with time limits: a step that hangs or throws is logged and abandoned, so that the final commit always has its time.
// The steps run in order, since each depends on those before.

import type { Clock } from '../../lib/clock'
import { within } from '../../lib/deadline'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'

export interface StopStep {
  readonly name: string
  readonly limitMs: number
  /** true: runs even if the total time is used up */
  readonly must?: boolean
  run(): unknown
}

/**
 * Runs the steps within `totalMs`; steps with `must` run even after that. Returns the names of abandoned steps. Never throws.
 */
export async function runSteps(
  steps: readonly StopStep[],
  totalMs: number,
  { clock, logger, timers = systemTimers }: { clock: Clock; logger: Logger; timers?: Timers },
): Promise<string[]> {
  const end = clock.mono() + totalMs
  const left: string[] = []
  for (const { name, limitMs, must = false, run } of steps) {
    const limit = must ? limitMs : Math.min(limitMs, end - clock.mono())
    if (limit <= 0) {
      left.push(name)
      continue
    }
    try {
      const done = (async () => {
        await run()
      })()
      if ((await within(timers, limit, done, () => 'late')) === 'late') {
        logger.warn(`stopping: ${name} took longer than ${Math.round(limit)} ms and was abandoned`)
        left.push(name)
      }
    } catch (error) {
      logger.error(`stopping ${name} failed: ${asOsError(error).message}`)
      left.push(name)
    }
  }
  return left
}
