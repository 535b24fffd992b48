// What every start and command looks at: whether a restore was cut off, and what one left behind. The work is done by restore.ts, which
// lies beside the program (src/update/index.ts).
import { join } from 'node:path'
import { asOsError } from '../lib/errors'
import { type Files, realFiles, removeTree } from '../lib/files'
import type { Logger } from '../lib/logger'

/** in the data directory: what a restore works with */
const SIDE_FOLDER = 'restore'
/** in the data directory: the state is that of a backup and was not started yet */
export const RESTORED_FILE = 'restored.json'

/** How far a restore is; see restore.ts. */
export interface Plan {
  readonly phase: 'out' | 'in' | 'done'
  readonly old: string
  readonly config: string
}

/** A path in the side folder. */
export const side = (dataDir: string, ...parts: string[]): string => join(dataDir, SIDE_FOLDER, ...parts)
export const planPath = (dataDir: string): string => side(dataDir, 'plan.json')

/** undefined: no restore was begun, or its state has started. */
export function readPlan(dataDir: string, files: Files): Plan | undefined {
  const path = planPath(dataDir)
  if (!files.exists(path)) return undefined
  // written at once: whatever else is in it comes from someone else
  const { phase, old, config } = JSON.parse(files.read(path).toString('utf8')) as Plan
  return { phase, old, config }
}

/** True where a restore was cut off. */
export const isUnfinished = (dataDir: string, files: Files = realFiles): boolean => {
  const phase = readPlan(dataDir, files)?.phase
  return phase === 'out' || phase === 'in'
}

/** The restored state has started: removes what the restore left beside it. What the disk refuses is logged, and tried at the next start. */
export function forgetOldState(dataDir: string, logger: Pick<Logger, 'info' | 'warn'>): void {
  const dir = side(dataDir)
  if (!realFiles.exists(dir)) return
  try {
    const had = realFiles.list(dir).some(name => name.startsWith('old-'))
    removeTree(dir)
    if (had) logger.info(`the restored state has started; the old one was removed from ${dir}`)
  } catch (error) {
    logger.warn(`the old state could not be removed from ${dir}: ${asOsError(error).message}`)
  }
}
