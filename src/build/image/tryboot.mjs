// The kernel module of board/tryboot for the kernel of an image, and the unit that loads it. It is compiled against Debian's headers of
// exactly that kernel, by the cross compiler of this machine; programs that come with the headers run with the C library of their own Debian.
// What fails: a package or a tool (E_TOOL).
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { tool } from '../node-runtime.mjs'
import { layOut, SUITE } from './packages.mjs'

const MODULE = 'os_node_tryboot'
const UNIT = 'os-node-tryboot.service'
const CROSS = 'aarch64-linux-gnu-'

/** The headers of the kernel `release`, with their programs made to run here; a copy that may be changed, in `work`. */
function headers(root, work, { release, suite, backports, say }) {
  const host = tool('dpkg', 'dpkg', ['--print-architecture']).trim()
  const archs = [...new Set([host, 'arm64'])]
  const packages = [`linux-headers-${release}:arm64`]
  const newer = backports ? packages : []
  const from = fetched(() => layOut(root, { label: 'headers', packages, newer, archs, suite, size: 60, say }))
  const own = join(work, 'headers')
  tool('coreutils', 'cp', ['-a', '--reflink=auto', from, own])
  const [kbuild] = readdirSync(join(own, 'usr/lib')).filter(name => name.startsWith('linux-kbuild-'))
  const scripts = join(own, 'usr/lib', kbuild, 'scripts')
  const triplet = host === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu'
  const libraries = join(own, 'usr/lib', triplet)
  const [loader] = readdirSync(libraries).filter(name => name.startsWith('ld-linux-'))
  // modpost starts one of several programs by its own name, which the loader would hide
  for (const [name, program] of [
    ['mod/modpost', 'mod/modpost.real-lsb-64'],
    ['basic/fixdep', 'basic/fixdep.own'],
  ]) {
    if (name === 'basic/fixdep') copyFileSync(join(scripts, name), join(scripts, program))
    rmSync(join(scripts, name))
    writeFileSync(
      join(scripts, name),
      `#!/bin/sh\nexec '${join(libraries, loader)}' --library-path '${libraries}' '${join(scripts, program)}' "$@"\n`,
    )
    chmodSync(join(scripts, name), 0o755)
  }
  return { own: join(own, `usr/src/linux-headers-${release}`), common: commonOf(join(own, 'usr/src')) }
}

/** Debian keeps the headers of its newest kernel only. */
function fetched(fetch) {
  try {
    return fetch()
  } catch (error) {
    error.message += '\nDebian may have a newer kernel than .cache/image-base-*: delete that folder and run again'
    throw error
  }
}

const commonOf = folder => join(folder, readdirSync(folder).filter(name => /^linux-headers-.*-common$/.test(name))[0])

/** The bytes of the module for the kernel `release`; `backports`: it comes from those of the suite. */
export function makeTryboot(root, { release, suite = SUITE, backports = false, say }) {
  mkdirSync(join(root, '.build'), { recursive: true })
  const work = mkdtempSync(join(root, '.build/tryboot-'))
  try {
    const { own, common } = headers(root, work, { release, suite, backports, say })
    const source = join(work, 'source')
    mkdirSync(source)
    copyFileSync(join(root, 'board/tryboot', `${MODULE}.c`), join(source, `${MODULE}.c`))
    writeFileSync(join(source, 'Kbuild'), `obj-m := ${MODULE}.o\n`)
    tool('gcc-aarch64-linux-gnu', `${CROSS}gcc`, ['--version'])
    tool('make', 'make', [
      '-C',
      own,
      '-f',
      join(common, 'Makefile'),
      `KBUILD_OUTPUT=${own}`,
      'ARCH=arm64',
      `CROSS_COMPILE=${CROSS}`,
      `CC=${CROSS}gcc`,
      // of a newer compiler than this machine may have
      'CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=',
      'CONFIG_DEBUG_INFO_BTF_MODULES=',
      `M=${source}`,
      'modules',
    ])
    const built = join(source, `${MODULE}.ko`)
    // the build ID depends on the folder
    tool('binutils-aarch64-linux-gnu', `${CROSS}strip`, ['--strip-debug', '-R', '.note.gnu.build-id', built])
    return readFileSync(built)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Puts the module for the kernel `release` and its unit into the system in `tree`. */
export function installTryboot(root, tree, options) {
  writeFileSync(join(tree, 'usr/lib/os-node', `${MODULE}.ko`), makeTryboot(root, options))
  copyFileSync(join(root, 'board/tryboot', UNIT), join(tree, 'usr/lib/systemd/system', UNIT))
  const wants = join(tree, 'etc/systemd/system/multi-user.target.wants')
  mkdirSync(wants, { recursive: true })
  symlinkSync(`/usr/lib/systemd/system/${UNIT}`, join(wants, UNIT))
}
