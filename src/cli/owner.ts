// Root on the files of another user. What fails: a user id without a name has no groups but its own; nothing here throws.
import { statSync } from 'node:fs'

/** What a process may become. */
type System = NodeJS.Process & { initgroups?: (user: number, group: number) => void }

/** The owner of a file; undefined: it is not there. */
function ownerOf(path: string): { uid: number; gid: number } | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined // a first start makes it, as the user who starts
  }
}

/**
 * Root that changes files of another user goes on as that user, for the rest of this process: else the gateway, which runs as that
 * user, could not read what root left. `paths`: the data directory and the configuration; the first that is there counts.
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
