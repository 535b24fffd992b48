// What the builds of esbuild have in common: how files are packed, and what is replaced while a bundle is made. Errors: those of the file system.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packBytes } from '../services/test-plugin/pack.mjs'
import { sha256Of } from './node-runtime.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')

/** The file packed; packing takes seconds, so what was packed before is taken from .build. */
export const packedText = path => packedBytes(readFileSync(path))

export function packedBytes(bytes) {
  const kept = join(root, '.build', `${sha256Of(bytes).slice(0, 32)}.packed`)
  if (!existsSync(kept)) {
    mkdirSync(dirname(kept), { recursive: true })
    writeFileSync(kept, packBytes(bytes))
  }
  return readFileSync(kept, 'utf8')
}

/** The plugin that loads the files of `filter`: `load` gives their contents. */
const loading = (name, filter, loader, load) => ({
  name,
  setup: build => build.onLoad({ filter }, ({ path }) => ({ contents: load(path), loader })),
})

/** `import wasm from 'x.wasm'` gives the file packed, as base64 text: small in the bundle, unpacked on first use. */
export const packed = loading(
  'packed-wasm',
  /\.wasm$/,
  'js',
  path => `module.exports = ${JSON.stringify(packedText(path))}`,
)

/**
 * Characters beyond ASCII are escaped: esbuild leaves those of regular expressions as they are, and one
 * of them in the bundle makes V8 keep all of its text at two bytes a character, in every thread.
 */
export const ascii = loading('ascii', /[\\/](src|drivers)[\\/].*\.ts$/, 'ts', path =>
  readFileSync(path, 'utf8').replace(/[^\0-\x7f]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`),
)

/** The masks of log lines, where nothing logs: their patterns are made when the module is loaded, so that it is kept as it is. */
export const unlogged = {
  name: 'unlogged',
  setup(build) {
    build.onResolve({ filter: /^\.\/secrets$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, `${path}.ts`),
      sideEffects: false,
    }))
  },
}

/**
 * Bluetooth goes through the addon: the library's own socket stays out, and the driver that it requests is the class that
 * drivers/bluetooth hands over. So do the tables of English names for services and characteristics, which are not used here,
 * and all of its package.json but the version.
 */
export const ownHciSocket = {
  name: 'own-hci-socket',
  setup(build) {
    build.onResolve({ filter: /^@stoprocent\/bluetooth-hci-socket$/ }, () => ({ path: 'driver', namespace: 'hci' }))
    build.onLoad({ filter: /.*/, namespace: 'hci' }, () => ({ contents: 'exports.loadDriver = driver => driver' }))
    build.onLoad({ filter: /[\\/]noble[\\/]lib[\\/](characteristics|descriptors|services)\.json$/ }, () => ({
      contents: '{}',
      loader: 'json',
    }))
    build.onLoad({ filter: /[\\/]noble[\\/]package\.json$/, namespace: 'file' }, ({ path }) => ({
      contents: JSON.stringify({ version: JSON.parse(readFileSync(path, 'utf8')).version }),
      loader: 'json',
    }))
  },
}

/** The page's script and style are imported packed. */
export const pageText = loading('page-text', /[\\/]\.build[\\/]page\.(js|css)$/, 'text', packedText)
