// Packages of which most gateways use none: each is bundled by itself and lies in the bundle packed (Brotli, base64), unpacked
// and compiled on its first use. Node reads through every character of the program's code at each start of each thread;
// packed, a package costs a start nothing and the bundle a third. Build time only.

/** pack → what of it is imported; the files of one pack share their modules */
const PACKS = {
  noble: [
    '@stoprocent/noble/lib/noble.js',
    '@stoprocent/noble/lib/hci-socket/bindings.js',
    '@stoprocent/noble/package.json',
  ],
  mqtt: ['mqtt/lib/client', 'mqtt-packet'],
  qr: ['uqr'],
  openapi: ['@valibot/to-json-schema'],
}
const PACK_OF = new Map(Object.entries(PACKS).flatMap(([pack, files]) => files.map(file => [file, pack])))
/** mark of a resolution that this plugin requested itself */
const REQUESTED = Symbol('requested')

/** What the pack is in the bundle: `module.exports` of the package, compiled with the bundle's own `require` and place. */
const unpacked = (pack, text) => `
  const { createRequire } = require('node:module')
  const { compileFunction } = require('node:vm')
  const { brotliDecompressSync } = require('node:zlib')
  const code = brotliDecompressSync(Buffer.from(${JSON.stringify(text)}, 'base64')).toString()
  const names = ['exports', 'require', 'module', '__filename', '__dirname']
  const filename = __filename + ':${pack}'
  compileFunction(code, names, { filename })(exports, createRequire(__filename), module, __filename, __dirname)`

/**
 * The esbuild plugin. `esbuild` and `options` bundle a pack (the options hold the plugins it needs, and `minify`), `packText` makes its
 * bytes small text. A package that is not installed is left to esbuild.
 */
export const firstUse = ({ esbuild, options, packText }) => ({
  name: 'first-use',
  setup(build) {
    build.onResolve({ filter: /^[@a-z]/ }, async ({ path, pluginData, ...args }) => {
      const pack = PACK_OF.get(path)
      if (!pack || pluginData === REQUESTED) return undefined
      const { importer, resolveDir, kind, namespace } = args
      const found = await build.resolve(path, { importer, resolveDir, kind, namespace, pluginData: REQUESTED })
      if (found.errors.length > 0 || found.external) return undefined
      return { path, namespace: 'first-use', pluginData: resolveDir }
    })
    build.onResolve({ filter: /^first-use:/ }, ({ path, resolveDir, pluginData }) => ({
      path: path.slice('first-use:'.length),
      namespace: 'first-use-pack',
      pluginData: pluginData ?? resolveDir,
    }))
    build.onLoad({ filter: /.*/, namespace: 'first-use' }, ({ path, pluginData }) => ({
      contents: `module.exports = require('first-use:${PACK_OF.get(path)}')[${JSON.stringify(path)}]()`,
      loader: 'js',
      resolveDir: pluginData,
      pluginData,
    }))
    build.onLoad({ filter: /.*/, namespace: 'first-use-pack' }, async ({ path: pack, pluginData: resolveDir }) => {
      const rows = PACKS[pack].map(file => `${JSON.stringify(file)}: () => require(${JSON.stringify(file)})`)
      const contents = `module.exports = { ${rows.join(', ')} }`
      const stdin = { contents, resolveDir, loader: 'js' }
      const bundled = await esbuild.build({ ...options, stdin, write: false })
      const [{ contents: code }] = bundled.outputFiles
      return { contents: unpacked(pack, packText(code)), loader: 'js' }
    })
  },
})
