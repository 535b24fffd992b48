// The SD image of one board: `npm run image -- --board qemu-virt` → dist/os-node-<board>-<version>.img.xz with its checksum. No
// root, no mounted file system: the tools that it needs are listed where one is missing. The same sources and packages give the
// same bytes where SOURCE_DATE_EPOCH is the same.
// What fails: a tool (E_TOOL), a package (E_TOOL), a part that does not fit (E_IMAGE).
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { makePackages } from '../deb.mjs'
import { tool } from '../node-runtime.mjs'
import { IMAGE_BOARDS } from './boards.mjs'
import { BOOT_MIB, DISK_ID, makeDisk, makeFat, makeRoot, START_MIB } from './disk.mjs'
import { makeInitramfs } from './initramfs.mjs'
import { makeSystem } from './system.mjs'

/** The kernel's command line of the slot whose root is `partition`. */
const commandLine = ({ console: consoles, options = '' }, partition, { hash, salt, blocks }) =>
  [
    ...consoles.map(name => `console=${name}`),
    `os_node.disk=${DISK_ID} os_node.partition=${partition} os_node.blocks=${blocks} os_node.hash=${hash} os_node.salt=${salt}`,
    'ro quiet loglevel=4 panic=10 rootwait systemd.show_status=0',
    options,
  ]
    .join(' ')
    .trim()

/** What the firmware starts: the boot partition of slot A, until an update has filled slot B. */
const AUTOBOOT = '[all]\ntryboot_a_b=1\nboot_partition=2\n'

/** The files of the base system that `names` says: `{ name: content }`. */
const fromBase = (base, release, names = {}) =>
  Object.fromEntries(
    Object.entries(names).map(([name, from]) => [name, readFileSync(join(base, from.replace('RELEASE', release)))]),
  )

/** Makes the image of `board`; its path. `quick`: only the unpacked image. `out`: where it goes. */
export function makeImage(root, { board, version, builtAt, quick = false, out = join(root, 'dist'), say }) {
  const recipe = IMAGE_BOARDS[board]
  if (!recipe)
    throw new Error(`E_USAGE: no image for board ${board}; there are ${Object.keys(IMAGE_BOARDS).join(', ')}`)
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(Math.floor(builtAt / 1000)), TZ: 'UTC' }
  mkdirSync(join(root, '.build'), { recursive: true })
  const work = mkdtempSync(join(root, '.build/image-'))
  const step = name => say(`${name} …`)
  try {
    step('package of os-node')
    const [deb] = makePackages(root, {
      version,
      builtAt,
      archs: ['arm64'],
      quick: true,
      out: work,
      say: () => undefined,
    })
    step('system')
    const tree = join(work, 'root')
    const { base, release } = makeSystem(root, tree, { deb, say })
    step('early system')
    const init = readFileSync(join(root, 'src/build/image/init'))
    const initramfs = join(work, 'initramfs')
    writeFileSync(initramfs, makeInitramfs(tree, { release, modules: recipe.early, init }))
    step('root file system (packing takes a minute)')
    const salt = createHash('sha256').update(`${board} ${version}`).digest('hex')
    const slot = makeRoot(tree, join(work, 'root.img'), { salt, quick, env })
    step('card')
    const bootFiles = {
      'kernel8.img': gzipSync(readFileSync(join(base, 'boot', `vmlinuz-${release}`)), { level: 9 }),
      initramfs: readFileSync(initramfs),
      'cmdline.txt': `${commandLine(recipe, 5, slot)}\n`,
      ...(recipe.config && { 'config.txt': recipe.config }),
      ...fromBase(base, release, recipe.boot),
    }
    const startFiles = {
      'os-node.conf': readFileSync(join(root, 'src/build/image/os-node.conf')),
      ...(recipe.config && { 'autoboot.txt': AUTOBOOT, 'config.txt': '' }),
    }
    makeFat(join(work, 'start.img'), START_MIB, 'OS-NODE', startFiles, env)
    makeFat(join(work, 'boot.img'), BOOT_MIB, 'BOOT-A', bootFiles, env)
    const image = join(out, `os-node-${board}-${version}.img`)
    makeDisk(image, { 1: join(work, 'start.img'), 2: join(work, 'boot.img'), 5: join(work, 'root.img') })
    const bootBytes = Object.values(bootFiles).reduce((sum, content) => sum + content.length, 0)
    const sizes = `root ${mib(join(work, 'root.img'))} MB, boot ${Math.ceil(bootBytes / 2 ** 20)} MB`
    if (quick) {
      say(`${image} ${mib(image)} MB (${sizes})`)
      return image
    }
    step('packing the image')
    tool('xz-utils', 'xz', ['-k', '-f', '-T0', '-6', image])
    const sum = createHash('sha256')
      .update(readFileSync(`${image}.xz`))
      .digest('hex')
    writeFileSync(`${image}.xz.sha256`, `${sum}  ${image.split('/').pop()}.xz\n`)
    say(`${image}.xz ${mib(`${image}.xz`)} MB, unpacked ${mib(image)} MB (${sizes})`)
    return image
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

const mib = path => Math.ceil(lstatSync(path).size / 2 ** 20)
