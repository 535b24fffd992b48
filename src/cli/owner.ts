// A process of root that changes files of another user. A user id without a name has only its own group; nothing here
// throws.
import { statSync } from 'node:fs'

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
 * first existing one decides.
 */
export function actAsOwner(paths: readonly string[], system: System = process as System): void {
  if (system.getuid?.() !== 0) return
  const owner = paths.map(ownerOf).find(found => found !== undefined)
  if (!owner || owner.uid === 0) return
  try {
    system.initgroups?.(owner.uid, owner.gid)
  } catch {
    system.setgroups?.([owner.gid])
  }
  system.setgid?.(owner.gid)
  system.setuid?.(owner.uid)
}
