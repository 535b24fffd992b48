// Compiles the kernel module of board/tryboot for the kernel of an image, and installs it with the unit that loads it. It is compiled with the
// cross compiler of this machine and Debian's headers of exactly that kernel; the programs among the headers run with the C library of their Debian.
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

/** Copies the headers of the kernel `release` to `work`, where their programs are changed so that they run on this machine. */
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
  // modpost starts one of several programs depending on its own name, which the loader would replace: the program is named directly
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

/** Runs `fetch`; an error gets a hint, since Debian has only the headers of its newest kernel. */
function fetched(fetch) {
  try {
    return fetch()
  } catch (error) {
    error.message += '\nDebian may have a newer kernel than .cache/image-base-*: delete that folder and run again'
    throw error
  }
}

const commonOf = folder => join(folder, readdirSync(folder).filter(name => /^linux-headers-.*-common$/.test(name))[0])

/** The compiled module for the kernel `release`; `backports`: this kernel comes from the suite's backports. */
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
      // options that an older compiler on this machine may lack
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

/** Installs the module for the kernel `release` and its unit in the system in `tree`. */
export function installTryboot(root, tree, options) {
  writeFileSync(join(tree, 'usr/lib/os-node', `${MODULE}.ko`), makeTryboot(root, options))
  copyFileSync(join(root, 'board/tryboot', UNIT), join(tree, 'usr/lib/systemd/system', UNIT))
  const wants = join(tree, 'etc/systemd/system/multi-user.target.wants')
  mkdirSync(wants, { recursive: true })
  symlinkSync(`/usr/lib/systemd/system/${UNIT}`, join(wants, UNIT))
}
