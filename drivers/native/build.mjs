// Compiles the addon with the C compiler that is there: one file per platform, cached under .build/native by a stamp of
// everything it is made of, copied to dist/native/<platform>-<arch>/os_node.node. Without a compiler nothing is built, and
// the program works without the addon. Cross compilers of Debian (gcc-aarch64-linux-gnu, gcc-arm-linux-gnueabihf) are taken
// for the other boards' processors.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
/** a thread in a call that does not return runs on when Node has unloaded the addon: its code stays */
const NODELETE = '-Wl,-z,nodelete'
const FLAGS = [
  '-std=gnu11',
  '-O2',
  '-fPIC',
  '-shared',
  '-fvisibility=hidden',
  '-Wall',
  '-Wextra',
  '-Werror',
  '-s',
  NODELETE,
]
/** undefined behaviour ends the process, so that no test can overlook it */
const SANITIZE = [
  '-std=gnu11',
  '-O1',
  '-g',
  '-fPIC',
  '-shared',
  '-fvisibility=hidden',
  '-Wall',
  '-Wextra',
  '-Werror',
].concat('-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-fno-omit-frame-pointer', NODELETE)
const CROSS = { arm64: 'aarch64-linux-gnu-gcc', arm: 'arm-linux-gnueabihf-gcc', x64: 'x86_64-linux-gnu-gcc' }

const compilerOf = arch => (arch === process.arch ? (process.env.CC ?? 'cc') : CROSS[arch])
const versionOf = cc => {
  const { status, stdout } = spawnSync(cc, ['--version'], { encoding: 'utf8' })
  return status === 0 ? stdout.split('\n')[0] : undefined
}

/**
 * Builds for `arch` (x64, arm64, arm; this machine's by default) and returns where the file is, or why there is none.
 * `root` is the project's folder. Throws when the C code does not compile.
 */
export function buildAddon(root, { arch = process.arch, sanitize = false, say = () => undefined } = {}) {
  if (process.platform !== 'linux') return { why: 'the addon is for Linux' }
  const cc = compilerOf(arch)
  const compiler = cc && versionOf(cc)
  if (!compiler) return { why: `no C compiler for ${arch}${cc ? ` (${cc})` : ''}` }
  const headers = join(root, 'node_modules/node-api-headers/include')
  if (!existsSync(join(headers, 'node_api.h'))) return { why: 'no node_api.h: run npm ci' }
  const flags = [...(sanitize ? SANITIZE : FLAGS), `-I${headers}`]
  const sources = readdirSync(here).filter(name => /\.[ch]$/.test(name))
  const stamp = createHash('sha256').update(JSON.stringify([compiler, sanitize ? SANITIZE : FLAGS]))
  for (const name of sources) stamp.update(name).update(readFileSync(join(here, name)))
  const digest = stamp.digest('hex')
  const dir = join(root, '.build', sanitize ? 'native-sanitized' : 'native', `linux-${arch}`)
  const path = join(dir, 'os_node.node')
  if (existsSync(path) && existsSync(join(dir, 'stamp')) && readFileSync(join(dir, 'stamp'), 'utf8') === digest)
    return { path, dir }
  mkdirSync(dir, { recursive: true })
  const files = sources.filter(name => name.endsWith('.c')).map(name => join(here, name))
  const fresh = `${path}.${process.pid}`
  const run = spawnSync(cc, [...flags, '-o', fresh, ...files], { stdio: ['ignore', 2, 2] })
  if (run.status !== 0) throw new Error(`E_ADDON: ${cc} could not compile drivers/native`)
  renameSync(fresh, path) // a process that has the old file loaded keeps it
  writeFileSync(join(dir, 'stamp'), digest)
  say(`${cc}: addon for linux-${arch}${sanitize ? ', with sanitizers' : ''}`)
  return { path, dir }
}

/** Builds for each of `archs` and lays the files beside the bundle. One line for each that cannot be had. */
export function installAddon(root, { archs = [process.arch], say = () => undefined } = {}) {
  for (const arch of archs) {
    const { path, why } = buildAddon(root, { arch, say })
    if (!path) {
      say(`no addon for ${process.platform}-${arch}: ${why}; everything else works without it`)
      continue
    }
    const dir = join(root, 'dist/native', `linux-${arch}`)
    mkdirSync(dir, { recursive: true })
    copyFileSync(path, join(dir, 'os_node.node'))
  }
}
