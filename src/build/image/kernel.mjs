// The kernel of an image: Debian's, or one from a package of Raspberry Pi that the caller names with its hash.
// What fails: a package with another hash, for another processor, or without a kernel (E_USAGE).
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { usageError } from '../command.mjs'
import { sha256Of, tool } from '../node-runtime.mjs'

const MODULES = 'usr/lib/modules'

/** Files next to the modules since Linux 7, which a board does not use. */
const BESIDE = ['System.map', 'config', 'dtb', 'vmlinuz']

/** Throws E_USAGE if there is no file `deb` or its hash is not `sha256`. */
export function checkKernel({ deb, sha256 }) {
  if (!statSync(deb, { throwIfNoEntry: false })?.isFile()) throw usageError(`--kernel: there is no file ${deb}`)
  const is = sha256Of(readFileSync(deb))
  if (is !== sha256?.toLowerCase())
    throw usageError(
      `--sha256: ${deb} has ${is}${sha256 ? `, not ${sha256}` : ': give it where it is that of the maker'}`,
    )
}

/** Unpacks the package `deb` into the empty folder `to`, with its modules in Debian's folder. Throws E_USAGE. */
export function layOutKernel({ deb, sha256 }, to) {
  checkKernel({ deb, sha256 })
  const arch = tool('dpkg', 'dpkg-deb', ['-f', deb, 'Architecture']).trim()
  if (arch !== 'arm64') throw usageError(`--kernel: ${deb} is for ${arch}, the boards have arm64`)
  mkdirSync(to, { recursive: true })
  tool('dpkg', 'dpkg-deb', ['-x', deb, to])
  if (existsSync(join(to, 'lib/modules')))
    cpSync(join(to, 'lib/modules'), join(to, MODULES), { recursive: true, verbatimSymlinks: true })
  const found = existsSync(join(to, MODULES)) ? readdirSync(join(to, MODULES)) : []
  if (found.length !== 1 || !existsSync(programOf(to, found[0])))
    throw usageError(`--kernel: ${deb} has no kernel; it is the package linux-image-… with a version`)
}

/** Reads modules.dep of a folder of modules: path of each module → paths of the modules that it needs. */
export function modulesDep(folder) {
  const lines = readFileSync(join(folder, 'modules.dep'), 'utf8').split('\n').filter(Boolean)
  return new Map(lines.map(line => line.split(/[: ]+/).filter(Boolean)).map(([path, ...others]) => [path, others]))
}

/** Replaces the modules in `tree` by those of `base`; returns the kernel's version. */
export function takeModules(base, tree) {
  const [release] = readdirSync(join(base, MODULES))
  if (!existsSync(join(tree, MODULES, release))) {
    rmSync(join(tree, MODULES), { recursive: true })
    cpSync(join(base, MODULES), join(tree, MODULES), { recursive: true, verbatimSymlinks: true })
  }
  for (const name of BESIDE) rmSync(join(tree, MODULES, release, name), { recursive: true, force: true })
  return release
}

function programOf(base, release) {
  const own = join(base, MODULES, release, 'vmlinuz')
  return existsSync(own) ? own : join(base, 'boot', `vmlinuz-${release}`)
}

/** The kernel, packed as the firmware and U-Boot load it; `quick`: less. */
export function packedKernel(base, release, quick = false) {
  const bytes = readFileSync(programOf(base, release))
  return bytes.readUInt16BE() === 0x1f8b ? bytes : gzipSync(bytes, { level: quick ? 1 : 9 })
}

/** The overlays in the package of a Raspberry Pi kernel: `{ 'overlays/NAME': bytes }`; undefined if there are none. */
export function ownOverlays(base, release) {
  const folder = join(base, 'usr/lib', `linux-image-${release}`, 'overlays')
  if (!existsSync(folder)) return undefined
  const names = readdirSync(folder).filter(name => /\.dtb[o]?$/.test(name))
  return Object.fromEntries(names.sort().map(name => [`overlays/${name}`, readFileSync(join(folder, name))]))
}
