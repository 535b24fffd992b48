// Makes the card's content as one file: a partition table with the start partition, two boot partitions, two root partitions and the data
// partition. Needs no mount and no root. The data partition is empty: the board makes its file system, as large as the card allows, so no
// two boards have the same file system id.
// What fails: a missing tool (E_TOOL), a part that is larger than its partition, an image that is larger than LIMITS (E_IMAGE).
import {
  closeSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { tool } from '../node-runtime.mjs'

const MIB = 2 ** 20
/** the disk signature by which the early system finds the card */
export const DISK_ID = '6f736e64'
/** [number, size in MiB, type]; a partition inside the extended one begins 1 MiB after its table */
const PRIMARY = [
  [1, 16, 'c'],
  [2, 48, 'c'],
  [3, 48, 'c'],
]
const LOGICAL = [
  [5, 128, '83'],
  [6, 128, '83'],
  [7, 8, '83'],
]
/** largest download and largest content of a card, in bytes: 90 and 512 MB of 10^6 */
const LIMITS = { packed: 90e6, unpacked: 512e6 }
export const BOOT_MIB = 48
export const START_MIB = 16

/** Start and size of each partition in bytes, `{ number: [start, size] }`, of the extended one, and the size of the image. */
export function layOut() {
  const places = {}
  let at = 1
  for (const [number, size] of PRIMARY) {
    places[number] = [at * MIB, size * MIB]
    at += size
  }
  const extended = at
  for (const [number, size] of LOGICAL) {
    at += 1
    places[number] = [at * MIB, size * MIB]
    at += size
  }
  return { places, extended: [extended * MIB, (at - extended) * MIB], size: at * MIB }
}

/** Writes a FAT file system of `mib` MiB with `files` (`{ name: content }`, a name may be in a folder) into the file `to`. */
export function makeFat(to, mib, label, files, env) {
  closeSync(openSync(to, 'w'))
  truncateSync(to, mib * MIB)
  const kind = mib > 32 ? '32' : '16'
  tool('dosfstools', 'mkfs.vfat', ['--invariant', '-i', DISK_ID, '-n', label, '-F', kind, to], { env })
  const folders = new Set()
  for (const [name, content] of Object.entries(files)) {
    const folder = dirname(name)
    if (folder !== '.' && !folders.has(folder)) tool('mtools', 'mmd', ['-i', to, `::${folder}`], { env })
    folders.add(folder)
    writeFileSync(`${to}.part`, content)
    utimesSync(`${to}.part`, env.SOURCE_DATE_EPOCH, env.SOURCE_DATE_EPOCH)
    tool('mtools', 'mcopy', ['-i', to, '-m', `${to}.part`, `::${name}`], { env })
  }
}

/** Packs `tree` into the file `to`: squashfs, followed by the hash tree of dm-verity. Returns root hash, salt and number of blocks. */
export function makeRoot(tree, to, { salt, quick, env }) {
  const how = ['-all-root', '-noappend', '-no-progress', '-no-xattrs', '-comp', 'zstd']
  const packing = ['-Xcompression-level', quick ? '1' : '19', '-b', quick ? '256K' : '1M']
  tool('squashfs-tools', 'mksquashfs', [tree, to, ...how, ...packing], { env })
  const blocks = Math.ceil(lstatSync(to).size / 4096)
  truncateSync(to, blocks * 4096)
  const said = tool('cryptsetup-bin', 'veritysetup', [
    'format',
    '--no-superblock',
    `--salt=${salt}`,
    `--hash-offset=${blocks * 4096}`,
    `--data-blocks=${blocks}`,
    to,
    to,
  ])
  const hash = /Root hash:\s*([0-9a-f]{64})/.exec(said)?.[1]
  if (!hash) throw new Error(`E_IMAGE: veritysetup did not say the root hash: ${said}`)
  return { hash, salt, blocks }
}

/** Throws if an image has more bytes than LIMITS allows. */
export function checkSizes(sizes) {
  for (const [what, limit] of Object.entries(LIMITS))
    if (sizes[what] > limit)
      throw new Error(
        `E_IMAGE: the ${what} image has ${sizes[what]} bytes, at most ${limit} are allowed: leave something out of the system`,
      )
}

/** Writes the card's content `to` from `parts` (`{ number: path }`); a partition without a part is zero. */
export function makeDisk(to, parts) {
  const { places, extended, size } = layOut()
  const sectors = bytes => bytes / 512
  const line = ([start, length], type) => `start=${sectors(start)}, size=${sectors(length)}, type=${type}`
  const script = [
    'label: dos',
    `label-id: 0x${DISK_ID}`,
    ...PRIMARY.map(([number, , type]) => `${number} : ${line(places[number], type)}`),
    `4 : ${line(extended, '5')}`,
    ...LOGICAL.map(([number, , type]) => `${number} : ${line(places[number], type)}`),
  ].join('\n')
  const fd = openSync(to, 'w')
  try {
    ftruncateSync(fd, size)
    tool('fdisk', 'sfdisk', ['--quiet', '--no-reread', '--no-tell-kernel', to], { input: script, stdio: 'pipe' })
    for (const [number, path] of Object.entries(parts)) {
      const [start, length] = places[number]
      const bytes = readFileSync(path)
      if (bytes.length > length)
        throw new Error(
          `E_IMAGE: partition ${number} needs ${bytes.length} bytes and has ${length}: leave something out of the system`,
        )
      writeSync(fd, bytes, 0, bytes.length, start)
    }
  } finally {
    closeSync(fd)
  }
}
