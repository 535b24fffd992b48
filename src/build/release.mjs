#!/usr/bin/env node
// Makes a release: npm's tarball, the Debian packages, images of the boards, NOTICE and the bill of materials in one folder, with
// SHA256SUMS of all of them and its signature.
// What fails: a wrong option, no key or no Ed25519 key, a board without an image, a folder that is not empty (E_USAGE); a processor whose
// addon is missing (E_RELEASE).
import { spawnSync } from 'node:child_process'
import { createPublicKey, sign } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { keyIn, readOptions, reportErrors, usageError } from './command.mjs'
import { makePackages } from './deb.mjs'
import { IMAGE_BOARDS } from './image/boards.mjs'
import { checkImage } from './image/check.mjs'
import { makeImage } from './image/index.mjs'
import { sha256Of, tool } from './node-runtime.mjs'

const PLATFORMS = ['linux-x64', 'linux-arm64', 'linux-arm']
/** files that only this computer can use */
const LOCAL = /\.(img|rpi-imager-manifest|sha256)$/

const HELP = `Makes a release: npm's tarball, the Debian packages, an image and an update for each board, NOTICE and the bill of materials in one folder,
with SHA256SUMS over all of them and its signature. The time in the files is that of the last commit where SOURCE_DATE_EPOCH does not say
another: the same commit, with the same packages of Debian, gives the same bytes.

  npm run release -- --key KEY.pem [options]

  --key KEY.pem    the private Ed25519 key that signs: openssl genpkey -algorithm ed25519 -out release.pem makes one
  --boards A,B     whose images; without it, those of every Raspberry Pi
  --trust A.pem,…  the images also accept updates signed by these keys, for the day when the key changes
  --url ADDRESS    where the images will be downloaded
  --out FOLDER     an empty or new folder; without it, .build/release-VERSION
  --help           prints this

Examples:
  npm run release -- --key release.pem
  npm run release -- --key release.pem --boards rpi-4,cm4 --url https://example.org/os-node`

/** Checks the options; returns the private key. Throws E_USAGE. */
function checkRelease(root, { key, trust, boards, url, out }) {
  if (!key) throw usageError('give --key FILE; openssl genpkey -algorithm ed25519 -out release.pem makes one')
  for (const board of boards) checkImage(root, { board, trust, url })
  if (existsSync(out) && readdirSync(out).length > 0)
    throw usageError(`${out} is not empty: remove it, or give --out FOLDER`)
  return keyIn(key, '--key')
}

/**
 * Makes the release of dist/ in the empty folder `out`; returns the names of its files. `key`: file with the private key; `trust`: files with
 * further keys whose updates the images accept; `boards`: those that get an image; `archs`: Debian's names of the processors, all by default; `url`: download folder of the images.
 */
export function makeRelease(root, { version, builtAt, key: path, trust, boards, archs, url, out, say }) {
  const key = checkRelease(root, { key: path, trust, boards, url, out })
  const missing = PLATFORMS.filter(name => !existsSync(join(root, 'dist/native', name, 'os_node.node')))
  if (missing.length > 0) throw new Error(`E_RELEASE: no addon for ${missing.join(', ')}: the build says what it needs`)
  mkdirSync(out, { recursive: true })
  say('tarball …')
  tool('npm', 'npm', ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', out], { cwd: root })
  makePackages(root, { version, builtAt, out, say, ...(archs && { archs }) })
  for (const board of boards) makeImage(root, { board, version, builtAt, sign: path, trust, url, out, say })
  for (const name of readdirSync(out)) if (LOCAL.test(name)) rmSync(join(out, name))
  for (const name of ['NOTICE', 'sbom.cdx.json']) copyFileSync(join(root, 'dist', name), join(out, name))
  const sums = readdirSync(out)
    .sort()
    .map(name => `${sha256Of(readFileSync(join(out, name)))}  ${name}\n`)
    .join('')
  writeFileSync(join(out, 'SHA256SUMS'), sums)
  writeFileSync(join(out, 'SHA256SUMS.sig'), sign(null, Buffer.from(sums), key))
  writeFileSync(join(out, 'release.pub'), createPublicKey(key).export({ type: 'spki', format: 'pem' }))
  return readdirSync(out).sort()
}

function main() {
  reportErrors()
  const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
  const string = { type: 'string' }
  const names = ['key', 'trust', 'boards', 'url', 'out']
  const values = readOptions(process.argv.slice(2), Object.fromEntries(names.map(name => [name, string])), HELP)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const boards = values.boards?.split(',') ?? Object.keys(IMAGE_BOARDS).filter(board => board !== 'qemu-virt')
  const about = {
    version,
    out: join(root, '.build', `release-${version}`),
    ...values,
    boards,
    trust: values.trust?.split(','),
  }
  checkRelease(root, about)
  const seconds =
    process.env.SOURCE_DATE_EPOCH ?? tool('git', 'git', ['log', '-1', '--format=%ct'], { cwd: root }).trim()
  const env = { ...process.env, SOURCE_DATE_EPOCH: seconds }
  const built = spawnSync(process.execPath, [join(root, 'build.mjs'), '--install', '--release'], {
    cwd: root,
    env,
    stdio: 'inherit',
  })
  if (built.status !== 0) throw new Error('E_RELEASE: the build failed')
  const files = makeRelease(root, { ...about, builtAt: Number(seconds) * 1000, say: console.error })
  for (const name of files) console.log(join(about.out, name))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
