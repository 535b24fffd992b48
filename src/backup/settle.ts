// Checked by every start and command: whether a restore was interrupted, and what one left behind. restore.ts does the work;
// it is not part of the main bundle (src/update/index.ts).
import { join } from 'node:path'
import { asOsError } from '../lib/errors'
import { type Files, realFiles, removeTree } from '../lib/files'
import type { Logger } from '../lib/logger'

/** in the data directory: the working folder of a restore */
const SIDE_FOLDER = 'restore'
/** in the data directory: the state was restored from a backup and was not started yet */
export const RESTORED_FILE = 'restored.json'

/** The progress of a restore; see restore.ts. */
export interface Plan {
  readonly phase: 'out' | 'in' | 'done'
  readonly old: string
  readonly config: string
}

/** A path in the working folder. */
export const side = (dataDir: string, ...parts: string[]): string => join(dataDir, SIDE_FOLDER, ...parts)
export const planPath = (dataDir: string): string => side(dataDir, 'plan.json')

/** undefined: no restore has begun, or its state has started. */
export function readPlan(dataDir: string, files: Files): Plan | undefined {
  const path = planPath(dataDir)
  if (!files.exists(path)) return undefined
  // written atomically: anything else in it is from another program
  const { phase, old, config } = JSON.parse(files.read(path).toString('utf8')) as Plan
  return { phase, old, config }
}

/** True if a restore was interrupted. */
export const isUnfinished = (dataDir: string, files: Files = realFiles): boolean => {
  const phase = readPlan(dataDir, files)?.phase
  return phase === 'out' || phase === 'in'
}

/**
 * The restored state has started: removes the files the restore left. If the disk refuses, that is logged, and the next start
 * tries again.
 */
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
