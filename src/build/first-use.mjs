// Packages that most gateways do not use: each is bundled separately and packed into the bundle (Brotli, base64); its first use unpacks
// and compiles it. Each start of a thread makes Node scan all of the program's code; a packed package costs a start nothing, and a third of
// its size in the bundle.

/** pack → the files of it that are imported; files of one pack share their modules */
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

/** The module of a pack in the bundle: `module.exports` of the package, compiled with the `require` and path of the bundle. */
const unpacked = (pack, text) => `
  const { createRequire } = require('node:module')
  const { compileFunction } = require('node:vm')
  const { brotliDecompressSync } = require('node:zlib')
  const code = brotliDecompressSync(Buffer.from(${JSON.stringify(text)}, 'base64')).toString()
  const names = ['exports', 'require', 'module', '__filename', '__dirname']
  const filename = __filename + ':${pack}'
  compileFunction(code, names, { filename })(exports, createRequire(__filename), module, __filename, __dirname)`

/**
 * The esbuild plugin. `esbuild` and `options` bundle a pack (the options contain the plugins it needs, and `minify`), `packText` compresses
 * its bytes to text. esbuild handles a package that is not installed.
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
