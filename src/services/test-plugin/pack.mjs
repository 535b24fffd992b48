// Packs what the test plugin carries inside the program: JSON, Brotli, base64. Build time only.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { scanTests, testSources } from './audit/scan.mjs'

/** whole nodes (`net`) are the integration run's, not the self-test's */
const LEFT_OUT = new Set(['net.json'])

/** Brotli, base64: the shorter of two block sizes (0: Brotli's choice). */
export const packBytes = bytes =>
  [0, 16]
    .map(block =>
      brotliCompressSync(bytes, {
        params: {
          [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
          [constants.BROTLI_PARAM_LGBLOCK]: block,
          [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
          [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
        },
      }),
    )
    .reduce((a, b) => (b.length < a.length ? b : a))
    .toString('base64')

const pack = value => packBytes(Buffer.from(JSON.stringify(value)))

/** The cases of test/vectors by group, without those that differ on purpose. */
export function packVectors(root) {
  const dir = join(root, 'test/vectors')
  const read = path => JSON.parse(readFileSync(path, 'utf8'))
  const divergences = read(join(root, 'test/interop/divergences.json'))
  const groups = readdirSync(dir).filter(name => name.endsWith('.json') && !LEFT_OUT.has(name))
  return pack(
    Object.fromEntries(
      groups
        .sort()
        .map(name => [
          name.slice(0, -'.json'.length),
          read(join(dir, name)).cases.filter(({ name }) => !Object.hasOwn(divergences, name)),
        ]),
    ),
  )
}

/**
 * Which tests name what there is, for the audit. The program lists its names: it is bundled once with an empty list.
 * `common`: options of esbuild, which find the list at `path`.
 */
export async function packAudit(root, path, esbuild, common) {
  writeFileSync(path, '')
  const outfile = join(root, '.build/inventory.cjs')
  const contents = `
    export { inventory } from './src/index'
    export { digestOf } from './src/services/test-plugin/audit/inventory'`
  await esbuild.build({
    ...common,
    stdin: { contents, resolveDir: root, loader: 'ts' },
    outfile,
    packages: 'external',
  })
  const { inventory, digestOf } = createRequire(import.meta.url)(outfile)
  const names = await inventory()
  return pack({ digest: digestOf(names), ...scanTests(names, testSources(root)) })
}
