// Checks that this machine has the programs that make an image. All missing ones are named together, before anything is downloaded.
// What fails: a missing program (E_TOOL).
import { existsSync } from 'node:fs'
import { searched } from '../node-runtime.mjs'
import { KEYRING } from './packages.mjs'

/** Program or file → Debian's package. */
const ALWAYS = {
  'dpkg-deb': 'dpkg',
  mmdebstrap: 'mmdebstrap',
  [KEYRING]: 'debian-archive-keyring',
  'systemd-sysusers': 'systemd',
  depmod: 'kmod',
  readelf: 'binutils',
  mksquashfs: 'squashfs-tools',
  veritysetup: 'cryptsetup-bin',
  'mkfs.vfat': 'dosfstools',
  mcopy: 'mtools',
  sfdisk: 'fdisk',
  zstd: 'zstd',
  xz: 'xz-utils',
  'aarch64-linux-gnu-gcc': 'gcc-aarch64-linux-gnu',
  'aarch64-linux-gnu-strip': 'binutils-aarch64-linux-gnu',
}
const OVERLAYS = { dtc: 'device-tree-compiler' }
/** compiles the kernel module that requests a trial start */
const MODULE = { make: 'make' }

/** Throws E_TOOL if a program for the image of `recipe` (see IMAGE_BOARDS) is in no folder of `path`. */
export function checkTools({ chip, chooser }, path = searched()) {
  const folders = path.split(':')
  const isHere = name => (name.startsWith('/') ? existsSync(name) : folders.some(dir => existsSync(`${dir}/${name}`)))
  const wanted = { ...ALWAYS, ...(chip && OVERLAYS), ...(chooser === 'firmware' && MODULE) }
  const missing = Object.keys(wanted).filter(name => !isHere(name))
  if (missing.length === 0) return
  const packages = missing.map(name => wanted[name])
  throw new Error(`E_TOOL: ${missing.join(', ')} missing: sudo apt-get install ${packages.join(' ')}`)
}
