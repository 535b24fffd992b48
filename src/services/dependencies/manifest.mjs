// The manifest of what os-node is made of: name, version and SHA-256 of the bundle, the self-test and every native file beside it, built
// into the bundle as its last line. The bundle's own hash is of everything before that line.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'

/** behind it base64 and nothing else; what looks like it within the code is code */
const LINE = /\n\/\/# osNodeManifest=[A-Za-z0-9+/=]+\n$/

const sha256 = bytes => createHash('sha256').update(bytes).digest('hex')

const platformsOf = dir =>
  existsSync(dir)
    ? readdirSync(dir, { withFileTypes: true })
        .filter(entry => entry.isDirectory())
        .map(entry => join(dir, entry.name))
    : []

/** Writes the manifest of the folder `dist` into its bundle, in the place of an older one. */
export function writeManifest(dist, version) {
  const bundle = join(dist, 'os-node.js')
  if (!existsSync(bundle)) return
  const code = readFileSync(bundle, 'utf8').replace(LINE, '')
  const partOf = (name, bytes) => ({
    ...{ name, kind: 'bundle', version, file: `${name}.js` },
    ...{ sha256: sha256(bytes), bytes: Buffer.byteLength(bytes) },
  })
  const parts = [partOf('os-node', code)]
  for (const name of ['os-node-selftest', 'os-node-sql']) {
    const beside = join(dist, `${name}.js`)
    if (existsSync(beside)) parts.push(partOf(name, readFileSync(beside)))
  }
  for (const dir of platformsOf(join(dist, 'native'))) {
    const platform = relative(join(dist, 'native'), dir)
    for (const entry of readdirSync(dir).sort()) {
      if (!entry.endsWith('.node')) continue
      const bytes = readFileSync(join(dir, entry))
      const hash = sha256(bytes)
      parts.push({
        name: `${entry.replace(/\.node$/, '')}-${platform}`,
        kind: 'native',
        version,
        file: `native/${platform}/${entry}`,
        platform,
        sha256: hash,
        bytes: bytes.length,
        package: { name: 'os-node', version, file: `dist/native/${platform}/${entry}` },
        // what the bundle carries of it is named by its hash
        ...(code.includes(hash) && { inside: true }),
      })
    }
  }
  const text = Buffer.from(JSON.stringify({ version, parts })).toString('base64')
  writeFileSync(bundle, `${code}\n//# osNodeManifest=${text}\n`)
}
