// Installs the packages of package-lock.json into node_modules: all of them, or for `npm start` only those that the bundle is made of,
// which fits a small board. node_modules/.os-node-lock has the hash of the installed lock, and whether all of it was installed.
// What fails: npm, or a node_modules that is a link (E_INSTALL).
import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Of } from './node-runtime.mjs'

/** Packages that are in the bundle or make it; the others check types, style and behaviour. */
const PARTS = [
  '@valibot/to-json-schema',
  'esbuild',
  'jsonc-parser',
  'mqtt',
  'mqtt-packet',
  'node-api-headers',
  'polka',
  'preact',
  'sql.js',
  'uplot',
  'uqr',
  'valibot',
]

/** The packages contain their native files: compiling them would need Python, make and Node's headers. */
const READY_MADE = ['--ignore-scripts']

/** Installs missing packages. `parts`: only those of the bundle, unless all are installed already. */
export function install(root, { parts = false, say = () => undefined } = {}) {
  const lockText = readFileSync(join(root, 'package-lock.json'), 'utf8')
  const lock = sha256Of(lockText)
  const modules = join(root, 'node_modules')
  const mark = join(modules, '.os-node-lock')
  const kept = existsSync(mark) ? readFileSync(mark, 'utf8') : ''
  if (kept === lock || (parts && kept === `parts ${lock}`)) return
  if (existsSync(modules) && lstatSync(modules).isSymbolicLink())
    fail('node_modules is a link, and npm ci would empty what it points to. Make it a folder, run again.')
  say('installing packages (npm ci) …')
  if (parts) installParts(root, JSON.parse(lockText))
  else npmCi(root, READY_MADE)
  writeFileSync(mark, parts ? `parts ${lock}` : lock)
}

/** npm has no class for packages that a build needs but a user does not: it gets a manifest with only these. */
function installParts(root, lock) {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const { version, devDependencies, optionalDependencies, overrides } = manifest
  const wanted = Object.fromEntries(PARTS.map(name => [name, devDependencies[name]]))
  const less = {
    name: 'os-node-parts',
    version,
    private: true,
    devDependencies: wanted,
    optionalDependencies,
    overrides,
  }
  const packages = { ...lock.packages, '': less }
  const dir = join(root, '.build/parts')
  rmSync(dir, { recursive: true, force: true })
  mkdirSync(dir, { recursive: true })
  writeFileSync(join(dir, 'package.json'), JSON.stringify(less))
  writeFileSync(join(dir, 'package-lock.json'), JSON.stringify({ ...lock, name: less.name, packages }))
  npmCi(dir, READY_MADE, SMALL)
  rmSync(join(root, 'node_modules'), { recursive: true, force: true })
  renameSync(join(dir, 'node_modules'), join(root, 'node_modules'))
  rmSync(dir, { recursive: true, force: true })
}

/** With these settings npm takes 150 MB instead of 310: one download at a time, and memory returned early. */
const SMALL = {
  npm_config_maxsockets: '1',
  MALLOC_ARENA_MAX: '1',
  UV_THREADPOOL_SIZE: '2',
  NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=1',
}

function npmCi(cwd, args = [], env = {}) {
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...args], {
    cwd,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, ...env },
  })
  if (npm.status !== 0) fail('npm ci failed. Check the network or the npm registry setting, then run again.')
}

function fail(text) {
  throw new Error(`E_INSTALL: ${text}`)
}
