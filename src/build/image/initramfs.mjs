// Makes the early system: an archive (cpio "newc") of busybox, blkdiscard, dmsetup and sfdisk with their libraries, the modules with which a
// board reaches its card, and the scripts `init` and `erase`. All files are root's and have no time, so the same files give the same bytes.
// What fails: a module or a library that the base system does not have (E_IMAGE).
import { spawnSync } from 'node:child_process'
import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { tool } from '../node-runtime.mjs'
import { modulesDep } from './kernel.mjs'

const LOADER = 'usr/lib/ld-linux-aarch64.so.1'
const PROGRAMS = ['usr/sbin/blkdiscard', 'usr/sbin/dmsetup', 'usr/sbin/sfdisk']
const LIBRARIES = 'usr/lib/aarch64-linux-gnu'
const APPLETS = [
  'sh',
  'mount',
  'umount',
  'mkdir',
  'insmod',
  'od',
  'cat',
  'sleep',
  'reboot',
  'switch_root',
  'ls',
  'grep',
  'blockdev',
]

const DIRECTORY = 0o040755
const PROGRAM = 0o100755
const FILE = 0o100644
const LINK = 0o120777
const DEVICE = 0o020600

/** An archive in the format that the kernel unpacks, from entries `[path, mode, content]`, each folder before its contents. */
export function cpio(entries) {
  const parts = []
  const add = (path, mode, content, inode, [major, minor] = [0, 0]) => {
    const name = Buffer.from(`${path}\0`)
    const fields = [inode, mode, 0, 0, 1, 0, content.length, 0, 0, major, minor, name.length, 0]
    const head = Buffer.from(`070701${fields.map(field => field.toString(16).padStart(8, '0')).join('')}`)
    for (const part of [Buffer.concat([head, name]), content])
      parts.push(part, Buffer.alloc((4 - (part.length % 4)) % 4))
  }
  entries.forEach(([path, mode, content = Buffer.alloc(0), device], index) => {
    add(path, mode, Buffer.from(content), index + 1, device)
  })
  add('TRAILER!!!', 0, Buffer.alloc(0), 0)
  return Buffer.concat(parts)
}

/**
 * Paths, below the folder of modules, of the modules of `wanted` (names without .ko) and their dependencies, in the order of loading. A name
 * with `?` is left out if the kernel has no such module.
 */
export function modulesInOrder(folder, wanted) {
  const needs = new Map()
  for (const [path, others] of modulesDep(folder)) needs.set(moduleName(path), { path, others: others.map(moduleName) })
  const builtIn = new Set(readFileSync(join(folder, 'modules.builtin'), 'utf8').split('\n').map(moduleName))
  const order = new Map()
  const visit = name => {
    if (order.has(name) || builtIn.has(name)) return
    const found = needs.get(name)
    if (!found) throw new Error(`E_IMAGE: the kernel has no module ${name}`)
    found.others.forEach(visit)
    order.set(name, found.path)
  }
  for (const word of wanted) {
    const name = word.replaceAll('-', '_').replaceAll('?', '')
    if (needs.has(name) || !word.endsWith('?')) visit(name)
  }
  return [...order.values()]
}

const moduleName = path =>
  basename(path)
    .replace(/\.ko(\.xz)?$/, '')
    .replaceAll('-', '_')

/** The path that `path` leads to, through links, below `tree`. */
function real(tree, path) {
  const stat = lstatSync(join(tree, path), { throwIfNoEntry: false })
  if (!stat) throw new Error(`E_IMAGE: the system has no ${path}`)
  if (!stat.isSymbolicLink()) return path
  const target = readlinkSync(join(tree, path))
  return real(tree, target.startsWith('/') ? target.slice(1) : join(dirname(path), target))
}

/** The names of the libraries that a program is linked with, directly and through others. */
function libraries(tree, program, found = new Set()) {
  const said = tool('binutils', 'readelf', ['-dW', join(tree, program)])
  for (const [, name] of said.matchAll(/\(NEEDED\).*\[(.+)\]/g)) {
    if (name.startsWith('ld-linux') || found.has(name)) continue
    found.add(name)
    libraries(tree, real(tree, join(LIBRARIES, name)), found)
  }
  return found
}

/**
 * Makes the archive for one kernel, packed with zstd (`quick`: less), from the base system in `tree`, the scripts `init` and `erase`, the
 * os-node.conf of a new card, and names of modules.
 */
export function makeInitramfs(tree, { release, modules, init, erase, conf, quick }) {
  const folder = join('usr/lib/modules', release)
  const read = path => readFileSync(join(tree, real(tree, path)))
  const order = modulesInOrder(join(tree, folder), modules)
  const unpacked = path => {
    if (!path.endsWith('.xz')) return read(join(folder, path))
    return spawnSync('xz', ['-dc', join(tree, folder, path)], { maxBuffer: 2 ** 26 }).stdout
  }
  const folders = ['bin', 'dev', 'lib', 'mnt', 'modules', 'proc', 'root', 'sys', LIBRARIES]
  const parents = folders.flatMap(path => path.split('/').map((_, at, all) => all.slice(0, at + 1).join('/')))
  const archive = cpio([
    ...[...new Set(parents)].map(path => [path, DIRECTORY]),
    ['dev/console', DEVICE, '', [5, 1]],
    ['init', PROGRAM, init],
    ['erase', PROGRAM, erase],
    ['os-node.conf', FILE, conf],
    ['bin/busybox', PROGRAM, read('usr/bin/busybox')],
    ...APPLETS.map(name => [`bin/${name}`, LINK, 'busybox']),
    ...PROGRAMS.map(path => [`bin/${basename(path)}`, PROGRAM, read(path)]),
    [`lib/${basename(LOADER)}`, PROGRAM, read(LOADER)],
    ...[...new Set(PROGRAMS.flatMap(path => [...libraries(tree, path)]))]
      .sort()
      .map(name => [join(LIBRARIES, name), FILE, read(join(LIBRARIES, name))]),
    ['modules/order', FILE, order.map(path => `${moduleName(path)}\n`).join('')],
    ...order.map(path => [`modules/${moduleName(path)}.ko`, FILE, unpacked(path)]),
  ])
  return tool('zstd', 'zstd', ['-q', quick ? '-3' : '-19', '-c'], {
    input: archive,
    stdio: 'pipe',
    encoding: 'buffer',
    maxBuffer: 2 ** 27,
  })
}
