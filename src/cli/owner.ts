// A process of root that changes files of another user. A user id without a name has only its own group. A Node whose libuv
// may use io_uring (Debian 13 has one) refuses to change its user: FORBIDDEN, with the command that works.
import { statSync } from 'node:fs'
import { OsError } from '../lib/errors'

/** Functions that change the user of a process. */
type System = NodeJS.Process & { initgroups?: (user: number, group: number) => void }

/** The owner of a file; undefined if it does not exist. */
function ownerOf(path: string): { uid: number; gid: number } | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined // the first start creates it, as the user who starts
  }
}

/**
 * A root process that changes files of another user switches to that user for its remaining lifetime: otherwise the
 * gateway, which runs as that user, could not read the files. `paths`: the data directory and the configuration; the
 * first existing one decides. Throws FORBIDDEN.
 */
export function actAsOwner(paths: readonly string[], system: System = process as System): void {
  if (system.getuid?.() !== 0) return
  const owner = paths.map(ownerOf).find(found => found !== undefined)
  if (!owner || owner.uid === 0) return
  const { uid, gid } = owner
  try {
    try {
      system.initgroups?.(uid, gid)
    } catch {
      system.setgroups?.([gid])
    }
    system.setgid?.(gid)
    system.setuid?.(uid)
  } catch (cause) {
    throw new OsError('FORBIDDEN', `this Node cannot become the owner of the files, user ${uid}: ${cause}`, {
      cause,
      hint: `run it as that user: sudo -u '#${uid}' os-node …`,
    })
  }
}
