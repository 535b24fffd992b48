// Compiles the addon for each processor with an available compiler: this machine's, and others by Debian's cross
// compilers. One file per platform, cached under .build/native by a hash of all inputs, copied to
// dist/native/<platform>-<arch>/os_node.node. A processor without a compiler is skipped, and the program works without
// the addon there.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
/** a thread in a blocked call continues after Node unloads the addon, so its code must stay in memory */
const NODELETE = '-Wl,-z,nodelete'
const COMMON = [
  ...['-std=gnu11', '-fPIC', '-shared', '-fvisibility=hidden', NODELETE],
  // callbacks have the parameters of their caller
  ...['-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror'],
]
export const FLAGS = [
  ...COMMON,
  '-O2',
  '-s',
  // C code throws no exceptions, so unwind tables are not needed
  '-fno-asynchronous-unwind-tables',
]
/** undefined behaviour ends the process, so that no test can miss it */
const SANITIZE = [
  ...COMMON,
  ...['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-fno-omit-frame-pointer'],
]
/** Every supported processor: Debian's compiler for it, and the package of the cross compiler. */
export const PROCESSORS = {
  x64: ['x86_64-linux-gnu-gcc', 'gcc-x86-64-linux-gnu'],
  arm64: ['aarch64-linux-gnu-gcc', 'gcc-aarch64-linux-gnu'],
  arm: ['arm-linux-gnueabihf-gcc', 'gcc-arm-linux-gnueabihf'],
}

const compilerOf = arch => (arch === process.arch ? (process.env.CC ?? 'cc') : PROCESSORS[arch]?.[0])
const versionOf = cc => {
  const { status, stdout } = spawnSync(cc, ['--version'], { encoding: 'utf8' })
  return status === 0 ? stdout.split('\n')[0] : undefined
}

/** A compiler without the C library's headers does not count. */
function compiles(cc) {
  const program = '#include <stdio.h>\n#include <pthread.h>\nint main(void) { return 0; }\n'
  return spawnSync(cc, ['-x', 'c', '-fsyntax-only', '-'], { input: program }).status === 0
}

/**
 * Builds for `arch` (x64, arm64, arm; default: this machine's) and returns the path of the file, or why there is none.
 * `root` is the project's folder. Rejects when the C code does not compile.
 */
export async function buildAddon(root, { arch = process.arch, sanitize = false, say = () => undefined } = {}) {
  if (process.platform !== 'linux') return { why: 'the addon is for Linux' }
  const { cc, why } = compilerFor(arch)
  if (!cc) return { why }
  const headers = join(root, 'node_modules/node-api-headers/include')
  if (!existsSync(join(headers, 'node_api.h'))) return { why: 'no node_api.h: run npm run build' }
  const sources = readdirSync(here).filter(name => /\.[ch]$/.test(name))
  const stamp = createHash('sha256')
  for (const name of sources) stamp.update(name).update(readFileSync(join(here, name)))
  return compiled({
    cc,
    dir: join(root, '.build', sanitize ? 'native-sanitized' : 'native', `linux-${arch}`),
    file: 'os_node.node',
    flags: sanitize ? SANITIZE : FLAGS,
    places: [`-I${headers}`],
    sources: sources.filter(name => name.endsWith('.c')).map(name => join(here, name)),
    made: stamp.digest('hex'),
    say: () => say(`${cc}: addon for linux-${arch}${sanitize ? ', with sanitizers' : ''}`),
  })
}

/** Debian's compiler for a processor, or the reason why it is missing. */
export function compilerFor(arch) {
  const cc = compilerOf(arch)
  return cc && versionOf(cc) ? { cc } : { why: `no C compiler ${cc ?? `for ${arch}`}: apt-get install gcc libc6-dev` }
}

/**
 * Compiles `sources` to `file` in `dir`, unless it is up to date (`made`, compiler and flags are unchanged); returns
 * its path. `places`: flags with folder names. Rejects with E_ADDON when the C code does not compile.
 */
export async function compiled({ cc, dir, file, flags, places, sources, made, say }) {
  const digest = createHash('sha256')
    .update(JSON.stringify([versionOf(cc), flags, made]))
    .digest('hex')
  const path = join(dir, file)
  const stamp = `${path}.stamp`
  if (existsSync(path) && existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return { path, dir }
  mkdirSync(dir, { recursive: true })
  const fresh = `${path}.${process.pid}`
  const run = spawn(cc, [...flags, ...places, '-o', fresh, ...sources], { stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  run.stderr.setEncoding('utf8').on('data', text => {
    errors += text
  })
  const [status] = await once(run, 'close')
  if (status !== 0 && !compiles(cc)) return { why: `${cc} finds no C headers: apt-get install libc6-dev` }
  process.stderr.write(errors)
  if (status !== 0) throw new Error(`E_ADDON: ${cc} could not compile ${file}`)
  renameSync(fresh, path) // a process that has loaded the old file keeps it
  writeFileSync(stamp, digest)
  say()
  return { path, dir }
}

/** Builds for every processor, and reports skipped ones in one line: platform → file. */
export async function buildAddons(root, say = () => undefined) {
  const built = new Map()
  const left = []
  await Promise.all(
    Object.entries(PROCESSORS).map(async ([arch, [, debian]]) => {
      const { path, why } = await buildAddon(root, { arch, say })
      if (path) built.set(`linux-${arch}`, path)
      else left.push(arch === process.arch ? `linux-${arch} (${why})` : `linux-${arch} (apt-get install ${debian})`)
    }),
  )
  if (left.length > 0) say(`no addon for ${left.sort().join(', ')}; everything else works there without it`)
  return new Map([...built].sort())
}

/** Programs of the packages: hci-open opens a Bluetooth adapter for the service, hold-lines holds its outputs while it does not run. */
export const HELPERS = ['hci-open', 'hold-lines']

/** One of HELPERS, for each processor whose addon was built: platform → file. Rejects with E_ADDON. */
export async function buildHelper(root, addons, name) {
  const source = join(here, 'helper', `${name.replace('-', '_')}.c`)
  const made = createHash('sha256').update(readFileSync(source)).digest('hex')
  const flags = ['-std=gnu11', '-O2', '-Wall', '-Wextra', '-Werror', '-s', '-fPIE', '-pie']
  const built = [...addons.keys()].map(async platform => {
    const { cc } = compilerFor(platform.slice('linux-'.length))
    const dir = join(root, '.build/native', platform)
    const places = { dir, file: name, places: [], sources: [source] }
    return [platform, (await compiled({ cc, flags, made, ...places, say: () => undefined })).path]
  })
  return new Map(await Promise.all(built))
}

/** Copies the files next to the bundle in `dist`. Equal ones stay: a package that is made meanwhile would meet a temporary name. */
export function installAddons(dist, built, name = 'os_node.node') {
  for (const [platform, path] of built) {
    const dir = join(dist, 'native', platform)
    const to = join(dir, name)
    if (existsSync(to) && readFileSync(to).equals(readFileSync(path))) continue
    mkdirSync(dir, { recursive: true })
    const fresh = `${to}.${process.pid}`
    copyFileSync(path, fresh)
    renameSync(fresh, to) // never overwritten in place: a running gateway has it loaded
  }
}
