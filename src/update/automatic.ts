// Updates that no user requested explicitly: by the schedule of os-node.conf, and from a USB stick. The result of the last
// check is stored on the data partition, where `os-node slots` and the page find it after a restart.
import { asOsError, OsError } from '../lib/errors'
import type { Update, UpdateList } from './file'
import { checkUpdate, type Installed } from './install'
import type { Slots } from './slots'
import { type LastUpdates, wasRolledBack } from './trial'

export interface LastCheck {
  /** UNIX ms by the clock of the board */
  readonly at: number
  /** address, or file on a USB stick */
  readonly source: string
  /** interrupted: the source could not be read, or the window ended; the next check continues */
  readonly result: 'installed' | 'up to date' | 'refused' | 'interrupted'
  /** version, or reason */
  readonly detail: string
}

/** Whether the update is the running version. */
export const runsAlready = ({ board, version, built_at: built }: UpdateList, slots: Slots): boolean =>
  board === slots.board && version === slots.version && built === slots.built_at

/**
 * Throws E_UPDATE if the update must not be installed automatically: checkUpdate refuses it, or it was rolled back before.
 */
export function checkAutomatic(update: Update, slots: Slots, updates: LastUpdates): void {
  checkUpdate(update, slots)
  const { version } = update.list
  if (wasRolledBack(updates, update.list))
    throw new OsError('E_UPDATE', `${version} was tried on this board and rolled back`, {
      hint: 'a newer one is installed automatically; os-node update tries this one again',
    })
}

/** Message and hint in one line. */
export function lineOf(error: unknown): string {
  const { message, hint } = asOsError(error)
  return hint ? `${message}; ${hint}` : message
}

/** The record of an installation that `install` attempts; its result undefined means: that version already runs. */
export async function checked(
  source: string,
  install: () => Promise<Installed | undefined>,
  now: () => number,
): Promise<LastCheck> {
  const check = (result: LastCheck['result'], detail: string): LastCheck => ({ at: now(), source, result, detail })
  try {
    const installed = await install()
    return installed ? check('installed', installed.version) : check('up to date', '')
  } catch (error) {
    return check(asOsError(error).code === 'E_UPDATE_SOURCE' ? 'interrupted' : 'refused', lineOf(error))
  }
}

/** One line of `os-node slots`. */
export const checkText = ({ at, source, result, detail }: LastCheck): string =>
  `last check: ${new Date(at).toISOString().slice(0, 16)}Z, ${source}: ${result}${detail && `, ${detail}`}`
