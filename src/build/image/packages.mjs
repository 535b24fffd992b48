// Unpacks packages of Debian without running their scripts, downloaded once into .cache.
// What fails: a package that cannot be downloaded, a missing tool (E_TOOL).
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { madeOnce, sha256Of, tool } from '../node-runtime.mjs'

export const SUITE = 'trixie'
/** Debian's public keys, which check the signature of its archive */
export const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const mirrorOf = suite => `deb http://deb.debian.org/debian ${suite} main non-free-firmware`

/**
 * The folder with `packages` and their dependencies; callers must not change it. `archs`: the first is that of packages without one.
 * `newer`: those of `packages` that come from the suite's backports.
 */
export function layOut(root, { label, packages: names, newer = [], archs = ['arm64'], suite = SUITE, size, say }) {
  const backports = `${suite}-backports`
  const mirrors = [suite, ...(newer.length > 0 ? [backports] : [])].map(mirrorOf)
  const mirror = mirrors.join('\n')
  const packages = names.map(name => (newer.includes(name) ? `${name}/${backports}` : name))
  const key = sha256Of(JSON.stringify([mirror, packages])).slice(0, 12)
  const dir = join(root, '.cache', `image-${label}-${key}`)
  return madeOnce(dir, fresh => {
    const count = packages.length === 1 ? packages[0] : `${packages.length} packages`
    say(`fetching ${count} of Debian ${suite} and what is needed with it (about ${size} MB) …`)
    const what = [
      '--variant=extract',
      // without root the other modes need subordinate ids, and leave files of other owners
      ...(process.getuid() === 0 ? [] : ['--mode=chrootless']),
      `--architectures=${archs.join(',')}`,
      `--include=${packages.join(',')}`,
      `--keyring=${KEYRING}`,
    ]
    tool('mmdebstrap', 'mmdebstrap', [...what, suite, fresh, ...mirrors])
    // device nodes, which mmdebstrap makes only as root
    rmSync(join(fresh, 'dev'), { recursive: true, force: true })
    mkdirSync(join(fresh, 'dev'))
    chmodSync(fresh, 0o755)
  })
}
