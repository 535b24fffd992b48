// Checked by every start and command: whether a restore was interrupted, and what one left behind. restore.ts does the work;
// it is not part of the main bundle (src/update/index.ts).
import { join } from 'node:path'
import { asOsError, OsError, orElse } from '../lib/errors'
import { type Files, realFiles, removeTree } from '../lib/files'
import type { Logger } from '../lib/logger'
import { isObject } from '../lib/objects'

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

/** undefined: no restore has begun, or its state has started; `damaged`: one was interrupted, and its progress is unknown. */
export function readPlan(dataDir: string, files: Files): Plan | 'damaged' | undefined {
  const path = planPath(dataDir)
  if (!files.exists(path)) return undefined
  const plan = orElse(undefined, () => JSON.parse(files.read(path).toString('utf8')) as Partial<Plan>)
  const { phase, old, config } = isObject(plan) ? (plan as Partial<Plan>) : {}
  if (/^(out|in|done)$/.test(String(phase)) && typeof old === 'string' && typeof config === 'string')
    return { phase: phase!, old, config }
  // written atomically, so the card is damaged; without a new state to move all of it is in place, or none was
  const names = files.list(side(dataDir))
  const begun = names.some(name => name === 'new' || name.startsWith('old-'))
  const complete = !names.includes('new') && files.exists(join(dataDir, RESTORED_FILE))
  return begun && !complete ? 'damaged' : undefined
}

/** True if a restore was interrupted. Throws STORAGE if it cannot be completed. */
export function isUnfinished(dataDir: string, files: Files = realFiles): boolean {
  const plan = readPlan(dataDir, files)
  if (plan === 'damaged')
    throw new OsError('STORAGE', `a restore was interrupted, and ${planPath(dataDir)} is damaged`, {
      hint: `run os-node restore FILE again; the files of the state before are in ${side(dataDir)}: copy them first if they are needed`,
    })
  return plan?.phase === 'out' || plan?.phase === 'in'
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
