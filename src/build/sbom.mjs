// Writes the bill of materials of a build, dist/sbom.cdx.json (CycloneDX 1.6), and dist/NOTICE with the licence of each package. A package is
// listed if, by esbuild's metafile, bytes of it are in the bundle or the self-test, or if a file of it lies next to the bundle. Versions and
// hashes are those of package-lock.json. An image has a separate bill. A package without a licence, or not in the lock, ends the build (E_SBOM).
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'

const LICENCE = /^(licen[cs]e|copying|unlicense)/i
/** licence of the data in src/units/atoms.generated.json, which is no package */
const UCUM = `The table of units is derived from UCUM. The UCUM table and UCUM codes are copyright 1995-2009, Regenstrief Institute, Inc.
and the Unified Codes for Units of Measures (UCUM) Organization. All rights reserved. Licence: https://ucum.org/license
`

/** The package's folder in `path`, relative to the root of the project; undefined for a file of the project. */
const packageOf = path => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0]

/** The esbuild plugin: adds the packages of every build that uses it to `found`. */
export const bundledPackages = found => ({
  name: 'bundled-packages',
  setup(build) {
    build.initialOptions.metafile = true
    build.onEnd(({ metafile }) => {
      for (const { inputs } of Object.values(metafile?.outputs ?? {}))
        for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
          const folder = bytesInOutput > 0 && packageOf(path.replace(/^[\w-]+:/, ''))
          if (folder) found.add(folder)
        }
    })
  },
})

function component(root, lock, folder) {
  const entry = lock.packages[folder]
  if (!entry) throw new Error(`E_SBOM: ${folder} is in the bundle and not in package-lock.json`)
  const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
  const file = readdirSync(join(root, folder)).find(one => LICENCE.test(one))
  const { license, author } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
  const stated = entry.license ?? license
  if (!stated) throw new Error(`E_SBOM: ${name} does not say its licence`)
  const holder = typeof author === 'string' ? author : author?.name
  const text = file ? readFileSync(join(root, folder, file), 'utf8').trim() : `${stated}. ${holder ?? ''}`.trim()
  const purl = `pkg:npm/${name.replace('@', '%40')}@${entry.version}`
  return {
    text,
    sbom: {
      type: 'library',
      'bom-ref': purl,
      name,
      version: entry.version,
      purl,
      licenses: [/ (OR|AND) /.test(stated) ? { expression: stated } : { license: { id: stated } }],
      ...(entry.integrity && {
        hashes: [
          { alg: 'SHA-512', content: Buffer.from(entry.integrity.slice('sha512-'.length), 'base64').toString('hex') },
        ],
      }),
    },
  }
}

/** A library that is compiled in and is not a package: its licence's text, and its entry in the bill. */
const foreign = ({ name, version, licence, purl, hashes, text }) => ({
  text,
  sbom: { type: 'library', 'bom-ref': purl, name, version, purl, licenses: [{ license: { id: licence } }], hashes },
})

/** Writes both files into `dist`. `folders`: those of packages, absolute or relative to the root; `others`: arguments of foreign(). */
export function writeSbom(root, dist, { folders, others = [], version, builtAt }) {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const places = folders.map(folder => (folder.startsWith(root) ? relative(root, folder) : folder))
  const names = [...new Set(places.map(place => place.split(sep).join('/')))].sort()
  const components = [...names.map(folder => component(root, lock, folder)), ...others.map(foreign)]
  const purl = `pkg:npm/os-node@${version}`
  const own = { type: 'application', 'bom-ref': purl, name: 'os-node', version, purl }
  const document = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      timestamp: new Date(builtAt).toISOString(),
      component: { ...own, licenses: [{ license: { id: 'Apache-2.0' } }] },
    },
    components: components.map(({ sbom }) => sbom),
    dependencies: [{ ref: purl, dependsOn: components.map(({ sbom }) => sbom['bom-ref']) }],
  }
  writeFileSync(join(dist, 'sbom.cdx.json'), `${JSON.stringify(document, null, 2)}\n`)
  const rows = components.map(({ sbom: { name, version, licenses }, text }) => {
    const [{ expression, license }] = licenses
    return `${'-'.repeat(78)}\n${name} ${version} (${expression ?? license.id})\n\n${text}\n`
  })
  writeFileSync(
    join(dist, 'NOTICE'),
    `os-node ${version}, Apache-2.0 (see LICENSE)\n\n${UCUM}\nThis program contains the packages below. An image for a board also has packages of Debian and Node.js: the files packages.txt and\ncopyright.debian.xz beside it, and in its folder /usr/share/doc/os-node, have their versions and licences.\n\n${rows.join('\n')}`,
  )
}

/** Writes the bill of an image to `path`: the program's in `dist`, plus Node and the packages of Debian, each `[name, version]`. */
export function writeImageSbom(path, dist, { board, version, node, packages }) {
  const document = JSON.parse(readFileSync(join(dist, 'sbom.cdx.json'), 'utf8'))
  const own = document.metadata.component
  const purl = `pkg:generic/os-node-${board}@${version}`
  const part = ([name, version, purl]) => ({ type: 'library', 'bom-ref': purl, name, version, purl })
  const more = [
    [node.name, node.version, `pkg:npm/${node.name}@${node.version}`],
    ...packages.map(([name, version]) => [
      name,
      version,
      `pkg:deb/debian/${name}@${encodeURIComponent(version)}?distro=trixie`,
    ]),
  ].map(part)
  document.metadata.component = { type: 'firmware', 'bom-ref': purl, name: `os-node-${board}`, version, purl }
  document.components = [own, ...document.components, ...more]
  document.dependencies.push({ ref: purl, dependsOn: [own, ...more].map(one => one['bom-ref']) })
  writeFileSync(path, `${JSON.stringify(document, null, 2)}\n`)
}
