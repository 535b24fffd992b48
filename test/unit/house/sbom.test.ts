// Everything delivered is named: SBOM and NOTICE of the build agree with package.json, the lock, and the bundle itself.
// Needs: quic
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../lib/gateway'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const json = (path: string) => JSON.parse(read(path))

interface Component {
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly licenses: readonly { readonly license?: { readonly id: string }; readonly expression?: string }[]
  readonly hashes: readonly { readonly alg: string; readonly content: string }[]
}

test('SBOM and NOTICE name each package of the bundle with version, hash and licence (S17)', () => {
  const { bomFormat, specVersion, metadata, components } = json('dist/sbom.cdx.json')
  const { name, version } = json('package.json')
  assert.deepEqual([bomFormat, specVersion], ['CycloneDX', '1.6'])
  assert.deepEqual([metadata.component.name, metadata.component.version], [name, version])
  const { packages } = json('package-lock.json')
  const notice = read('dist/NOTICE')
  const library = (components as Component[]).find(({ name }) => name === 'ngtcp2')
  assert.match(library?.purl ?? '', /^pkg:deb\/debian\/ngtcp2@[\d.]+\?arch=source$/)
  assert.ok(notice.includes(`\nngtcp2 ${library!.version} (MIT)\n`))
  for (const { name, version, purl, licenses, hashes } of components as Component[]) {
    if (name === library!.name) continue
    assert.equal(purl, `pkg:npm/${name.replace('@', '%40')}@${version}`)
    const [{ license, expression }] = licenses as [Component['licenses'][0]]
    assert.match(license?.id ?? expression!, /^[A-Za-z0-9.() -]+$/, `${name}: an SPDX name`)
    assert.ok(notice.includes(`\n${name} ${version} (${license?.id ?? expression})\n`), `NOTICE has no ${name}`)
    const locked = Object.entries(packages as Record<string, { version: string; integrity: string }>).filter(
      ([path, entry]) => path.endsWith(`node_modules/${name}`) && entry.version === version,
    )
    const digest = Buffer.from(hashes[0]!.content, 'hex').toString('base64')
    assert.ok(
      locked.some(([, { integrity }]) => integrity === `sha512-${digest}`),
      `${name} ${version} is not the one of the lock`,
    )
  }
  // the bundle's own map lists what is in it; the packs and the worker are not in the map
  const names = new Set((components as Component[]).map(({ name }) => name))
  const sources = json('dist/os-node.js.map').sources as string[]
  const mapped = new Set(sources.flatMap(path => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []))
  assert.ok(mapped.size > 5)
  for (const name of [...mapped, 'mqtt', '@stoprocent/noble', 'sql.js', 'preact', 'uplot'])
    assert.ok(names.has(name), `${name} is in the bundle and not in the SBOM`)
})

test('every dependency has an exact version (S17)', () => {
  const { devDependencies, optionalDependencies, overrides } = json('package.json')
  for (const [name, version] of Object.entries({ ...devDependencies, ...optionalDependencies, ...overrides }))
    assert.match(String(version), /^(\d+\.\d+\.\d+|\$\w+)$/, name)
})

test('docs/dependencies.md names each dependency with its version', () => {
  const page = read('docs/dependencies.md')
  const { devDependencies, optionalDependencies } = json('package.json')
  for (const [name, version] of Object.entries({ ...devDependencies, ...optionalDependencies }))
    assert.ok(page.includes(`${name} ${version}`), `${name} ${version}`)
})
