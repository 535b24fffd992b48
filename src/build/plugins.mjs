// Plugins that the builds of esbuild share: they pack files, and replace others in the bundle. Errors: those of the file system.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packBytes } from '../services/test-plugin/pack.mjs'
import { sha256Of } from './node-runtime.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')

/** The packed file as text. Packing takes seconds, so .build keeps the results. */
export const packedText = path => packedBytes(readFileSync(path))

export function packedBytes(bytes) {
  const kept = join(root, '.build', `${sha256Of(bytes).slice(0, 32)}.packed`)
  if (!existsSync(kept)) {
    mkdirSync(dirname(kept), { recursive: true })
    writeFileSync(kept, packBytes(bytes))
  }
  return readFileSync(kept, 'utf8')
}

/** A plugin that loads the files that match `filter`; `load` returns their contents. */
const loading = (name, filter, loader, load) => ({
  name,
  setup: build => build.onLoad({ filter }, ({ path }) => ({ contents: load(path), loader })),
})

/** `import wasm from 'x.wasm'` gives the packed file as base64 text, which is unpacked on first use. */
export const packed = loading(
  'packed-wasm',
  /\.wasm$/,
  'js',
  path => `module.exports = ${JSON.stringify(packedText(path))}`,
)

/**
 * Escapes characters beyond ASCII: esbuild leaves those in regular expressions unescaped, and a single one in the bundle makes V8 store
 * all of its text with two bytes per character, in every thread.
 */
export const ascii = loading('ascii', /[\\/](src|drivers)[\\/].*\.ts$/, 'ts', path =>
  readFileSync(path, 'utf8').replace(/[^\0-\x7f]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`),
)

/** Drops the masks of log lines from a program that does not log: esbuild keeps the module otherwise, since it makes patterns when loaded. */
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
 * Leaves noble's own HCI socket out, since Bluetooth goes through the addon: the driver that noble requests is the class that
 * drivers/bluetooth passes to it. Also leaves out the unused tables of English names of services and characteristics, and all of
 * noble's package.json except the version.
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

/** Importing the page's script or style gives it packed. */
export const pageText = loading('page-text', /[\\/]\.build[\\/]page\.(js|css)$/, 'text', packedText)
