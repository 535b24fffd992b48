// Options of esbuild for dist/os-node-selftest.js, a separate file next to the bundle: the plugin test_plugin with its vectors and stress
// runs. It exports its version and `load(program)`, which returns the exports of src/services/test-plugin/index.ts.
import { dirname, join, relative } from 'node:path'

const FOLDER = 'src/services/test-plugin'

/** Replaces program.ts by the running program; any other import from outside the folder ends the build. */
const fromProgram = root => ({
  name: 'from-program',
  setup(build) {
    const dir = join(root, FOLDER)
    build.onResolve({ filter: /^\./ }, ({ path, resolveDir, importer }) => {
      const target = join(resolveDir, path)
      if (target === join(dir, 'program')) return { path: 'program', namespace: 'from-program' }
      if (!relative(dir, target).startsWith('..')) return undefined
      const text = `E_SELFTEST_IMPORT: ${relative(root, importer)} imports ${path}; ${FOLDER}/program.ts is the way to the program`
      return dirname(importer).startsWith(dir) ? { errors: [{ text }] } : undefined
    })
    build.onLoad({ filter: /.*/, namespace: 'from-program' }, () => ({
      contents: 'module.exports = __program',
      loader: 'js',
    }))
  },
})

/** Options of esbuild for the file, on top of `shipped`. */
export const selfTestFile = (shipped, { root, dist, version }) => ({
  ...shipped,
  plugins: [...shipped.plugins, fromProgram(root)],
  entryPoints: [`${FOLDER}/index.ts`],
  outfile: `${dist}/os-node-selftest.js`,
  sourcemap: true,
  sourcesContent: true,
  banner: {
    js: `'use strict';exports.version=${JSON.stringify(version)};exports.load=__program=>{var module={exports:{}};`,
  },
  footer: { js: 'return module.exports}' },
})
