// Removes the firmware of radios that a board does not have, and adds that which Debian does not carry: the files of a folder that is arranged
// like /lib/firmware (brcm/NAME). A file `brcmfmac…` outside of a folder goes into brcm, where its driver looks for it.
// What fails: a missing or empty folder, a link to nowhere (E_USAGE).
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { usageError } from '../command.mjs'

/** The files of the folder `from`: name below /lib/firmware → path. Throws E_USAGE. */
export function firmwareFiles(from) {
  const wrong = why => usageError(`--firmware: ${why}`)
  if (!statSync(from, { throwIfNoEntry: false })?.isDirectory()) throw wrong(`there is no folder ${from}`)
  const files = {}
  for (const name of readdirSync(from, { recursive: true }).sort()) {
    const path = join(from, name)
    const stat = statSync(path, { throwIfNoEntry: false })
    if (!stat) throw wrong(`${path} is a link to nowhere: copy the file that it means`)
    if (!stat.isFile()) continue
    files[/^brcmfmac[^/]*$/.test(name) ? `brcm/${name}` : name] = path
  }
  if (Object.keys(files).length === 0) throw wrong(`${from} has no file`)
  return files
}

/** Adds the files of the folder `from` to the system in `tree`; returns their names below /lib/firmware. Throws E_USAGE. */
export function addFirmware(from, tree) {
  const files = firmwareFiles(from)
  for (const [name, path] of Object.entries(files)) {
    const place = join(tree, 'usr/lib/firmware', name)
    mkdirSync(dirname(place), { recursive: true })
    copyFileSync(path, place)
  }
  return Object.keys(files)
}

/** Removes the files and links of the system in `tree` whose names contain `names`, a pattern. */
export function removeFirmware(tree, names) {
  const folder = join(tree, 'usr/lib/firmware')
  for (const name of readdirSync(folder, { recursive: true })) if (names.test(name)) rmSync(join(folder, name))
}

/** Whether the system in `tree` has the file `name`, below /lib/firmware. */
export const hasFirmware = (tree, name) => existsSync(join(tree, 'usr/lib/firmware', name))
