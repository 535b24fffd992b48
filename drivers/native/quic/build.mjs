// Compiles the QUIC addon: ngtcp2 from Debian's source, which is fetched once into .cache and checked against the hash that is
// written here, and the C code of this folder. TLS is that of the Node that loads the file; any OpenSSL 3 headers do to compile,
// and those beside Node hold them for every processor. What fails: no compiler, no headers, no source to be had: the processor is
// left out with the reason, and QUIC is down there. Rejects with E_ADDON where the C code does not compile, E_SOURCE for other bytes.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compiled, compilerFor, FLAGS, PROCESSORS } from '../build.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const VERSION = '1.24.0'
const FILE = `ngtcp2_${VERSION}.orig.tar.xz`
const SHA256 = '7fa5ec2be0f0cbed8bc4ec89c0787dfa9d8ce678f1ed9477c52f30eb1a591207'
/** Debian keeps the newest in its pool, and all of them in its snapshots. */
const PLACES = [
  `http://deb.debian.org/debian/pool/main/n/ngtcp2/${FILE}`,
  `https://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/n/ngtcp2/${FILE}`,
]
const FETCH_MS = 30_000
/** bound at loading: on a Node whose OpenSSL lacks a function it does not load, and no call ends the process later */
const QUIC_FLAGS = [
  ...FLAGS,
  '-ffunction-sections',
  '-Wl,--gc-sections,-z,now',
  '-DNGTCP2_STATICLIB',
  '-DHAVE_ARPA_INET_H',
  '-DHAVE_NETINET_IN_H',
  '-DHAVE_UNISTD_H',
]

const sha256 = bytes => createHash('sha256').update(bytes).digest('hex')

/** The archive, from .cache or Debian. Throws what the network says, E_SOURCE for other bytes. */
async function archive(cache) {
  const path = join(cache, FILE)
  if (existsSync(path)) return path
  let failure
  for (const place of PLACES)
    try {
      const answer = await fetch(place, { signal: AbortSignal.timeout(FETCH_MS) })
      if (!answer.ok) throw new Error(`${place}: ${answer.status}`)
      const bytes = Buffer.from(await answer.arrayBuffer())
      if (sha256(bytes) !== SHA256)
        throw new Error(`E_SOURCE: ${place} has SHA-256 ${sha256(bytes)}, not ${SHA256}: do not use it`)
      mkdirSync(cache, { recursive: true })
      writeFileSync(`${path}.${process.pid}`, bytes)
      renameSync(`${path}.${process.pid}`, path)
      return path
    } catch (error) {
      if (error.message.startsWith('E_SOURCE')) throw error
      failure ??= error
    }
  throw failure
}

/** The folder of ngtcp2's source, or why there is none. Rejects with E_SOURCE. */
async function source(root, say) {
  const cache = join(root, '.cache')
  const dir = join(cache, `ngtcp2-${VERSION}`)
  if (existsSync(dir)) return { dir }
  try {
    if (!existsSync(join(cache, FILE))) say(`fetching ngtcp2 ${VERSION} (0.7 MB) …`)
    const path = await archive(cache)
    const fresh = mkdtempSync(`${dir}-`)
    try {
      const { status, stderr, error } = spawnSync('tar', ['xJf', path, '-C', fresh, '--strip-components=1'])
      if (status !== 0) return { why: `tar cannot unpack ngtcp2 (apt-get install xz-utils): ${error ?? stderr}` }
      // made by its configure otherwise
      const [major, minor, patch] = VERSION.split('.').map(Number)
      const number = (major << 16) | (minor << 8) | patch
      const text = `#define NGTCP2_VERSION "${VERSION}"\n#define NGTCP2_VERSION_NUM ${number}\n`
      writeFileSync(join(fresh, 'lib/includes/ngtcp2/version.h'), text)
      renameSync(fresh, dir)
    } finally {
      rmSync(fresh, { recursive: true, force: true })
    }
    return { dir }
  } catch (error) {
    if (error.message.startsWith('E_SOURCE')) throw error
    return { why: `ngtcp2 cannot be fetched: ${error.cause?.message ?? error.message}` }
  }
}

/** The folder whose openssl/ holds the headers: beside Node, with those of every processor, or for this one the system's. */
export const opensslHeaders = arch =>
  [join(dirname(process.execPath), '../include/node'), '/usr/include/node', '/usr/include'].find(dir =>
    existsSync(join(dir, 'openssl', arch === process.arch ? 'ssl.h' : 'archs')),
  )

/** Builds for one processor: where the file is, or why there is none. `root` is the project's folder. */
async function buildFor(root, arch, ngtcp2, say) {
  const { cc, why } = compilerFor(arch)
  if (!cc) return { why }
  const headers = opensslHeaders(arch)
  if (!headers) return { why: 'no headers of OpenSSL beside Node; for this processor: apt-get install libssl-dev' }
  const own = readdirSync(here).filter(name => /\.[ch]$/.test(name))
  // the library's assertions name its files: by names that are the same in every folder
  const names = [`-ffile-prefix-map=${ngtcp2}=ngtcp2`, `-ffile-prefix-map=${here}=quic`]
  const made = createHash('sha256').update(SHA256).update('prefix map')
  for (const name of own) made.update(name).update(readFileSync(join(here, name)))
  const library = readdirSync(join(ngtcp2, 'lib')).filter(name => name.endsWith('.c'))
  return compiled({
    cc,
    dir: join(root, '.build/native', `linux-${arch}`),
    file: 'quic.node',
    flags: QUIC_FLAGS,
    places: [
      ...names,
      ...['-include', join(here, 'openssl_quic.h'), `-I${join(root, 'node_modules/node-api-headers/include')}`],
      ...['lib', 'crypto', 'lib/includes', 'crypto/includes'].map(dir => `-I${join(ngtcp2, dir)}`),
      ...['-idirafter', headers],
    ],
    sources: [
      ...library.map(name => join(ngtcp2, 'lib', name)),
      ...['crypto/shared.c', 'crypto/ossl/ossl.c'].map(name => join(ngtcp2, name)),
      ...own.filter(name => name.endsWith('.c')).map(name => join(here, name)),
    ],
    made: made.digest('hex'),
    say: () => say(`${cc}: QUIC for linux-${arch}`),
  })
}

/** What the bill of a build says of ngtcp2, where it was built in. */
export const quicSource = root => ({
  name: 'ngtcp2',
  version: VERSION,
  licence: 'MIT',
  purl: `pkg:deb/debian/ngtcp2@${VERSION}?arch=source`,
  hashes: [{ alg: 'SHA-256', content: SHA256 }],
  text: readFileSync(join(root, '.cache', `ngtcp2-${VERSION}`, 'COPYING'), 'utf8').trim(),
})

/**
 * Builds for the processors named, and says in one line which had to be left out: platform → file. Rejects with E_ADDON, E_SOURCE.
 */
export async function buildQuic(root, archs, say) {
  const built = new Map()
  if (process.platform !== 'linux' || archs.length === 0) return built
  const { dir, why: noSource } = await source(root, say)
  const left = []
  for (const arch of archs.filter(arch => arch in PROCESSORS)) {
    const { path, why } = dir ? await buildFor(root, arch, dir, say) : { why: noSource }
    if (path) built.set(`linux-${arch}`, path)
    else left.push(`linux-${arch} (${why})`)
  }
  if (left.length > 0) say(`no QUIC for ${left.join(', ')}; everything else works there without it`)
  return built
}
