// Updates on a USB stick that a user plugs into the running board. The stick is not trusted: it is mounted read-only, links
// are not followed, only a limited number of names in its root folder is read, and of a file only what a key of the image
// signed.
// Errors: a stick that cannot be mounted, a file that is not regular (E_UPDATE_SOURCE); a refused update is E_UPDATE of
// file.ts.
import { execFileSync } from 'node:child_process'
import { opendirSync } from 'node:fs'
import { join } from 'node:path'
import { asOsError, OsError, orElse } from '../lib/errors'
import { isNewer, readUpdate, type Update, type UpdateList } from './file'
import { openRegular, type UpdateSource } from './update-source'

const NAME = /^os-node-[\w.+-]{1,100}\.update$/
/** maximum number of names checked in the folder, and of updates among them */
const NAMES = 2000
const UPDATES = 16

const SAFE = 'ro,nosuid,nodev,noexec,nosymfollow'
/** no journal replay, which would write; ignore a file system's request to panic on errors */
const KINDS = { vfat: SAFE, exfat: SAFE, ext4: `${SAFE},noload,errors=continue` }

const cannot = (message: string, hint: string): OsError => new OsError('E_UPDATE_SOURCE', message, { hint })

type Mount = (kind: string, options: string, device: string, folder: string) => void
const mountIt: Mount = (kind, options, device, folder) => {
  execFileSync('mount', ['-t', kind, '-o', options, device, folder], { stdio: 'ignore', timeout: 60_000 })
}

/** Mounts a partition by its kernel name. `mount`: for tests. Throws E_UPDATE_SOURCE. */
export function mountStick(name: string, folder: string, mount = mountIt): void {
  if (!/^[a-z0-9]{1,32}$/.test(name)) throw cannot('this is not a partition', 'use its kernel name, for example sda1')
  const mounted = Object.entries(KINDS).some(([kind, options]) =>
    orElse(false, () => {
      mount(kind, options, `/dev/${name}`, folder)
      return true
    }),
  )
  if (!mounted)
    throw cannot('the stick cannot be read', 'format it with FAT32 or exFAT, and copy the update to it again')
}

/** The names of the updates in the root folder of a stick. */
export function updatesOn(folder: string): string[] {
  const names: string[] = []
  const dir = opendirSync(folder)
  try {
    for (let seen = 0; seen < NAMES && names.length < UPDATES; seen++) {
      const entry = dir.readSync()
      if (!entry) break
      if (NAME.test(entry.name)) names.push(entry.name)
    }
  } finally {
    dir.closeSync()
  }
  return names.sort()
}

/** Opens a file of a stick. Rejects with E_UPDATE_SOURCE. */
export const openOn = (folder: string, name: string): Promise<UpdateSource> =>
  openRegular(join(folder, name), name, 'copy the update to the stick again')

/** The newest update of a stick that `check` accepts, and why each of the others was refused. */
export async function newestOn(
  folder: string,
  keys: string,
  check: (update: Update) => void,
): Promise<{ name?: string; refusals: string[] }> {
  let newest: { name: string; list: UpdateList } | undefined
  const refusals: string[] = []
  for (const name of updatesOn(folder)) {
    let source: UpdateSource | undefined
    try {
      source = await openOn(folder, name)
      const update = await readUpdate(source.read, keys)
      check(update)
      if (!newest || isNewer(update.list, newest.list)) newest = { name, list: update.list }
    } catch (error) {
      refusals.push(`${name}: ${asOsError(error).message}`)
    } finally {
      await source?.close()
    }
  }
  return { ...(newest && { name: newest.name }), refusals }
}
