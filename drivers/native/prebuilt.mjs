// Packages with native files inside the one-file bundle (D1): what a package asks node-gyp-build for is loaded from
// dist/native/<platform>-<arch>/<package>.node beside the bundle, on first use, and the files that packages bring ready
// made (Node-API, glibc) are laid there by the build. A platform for which a package brings none gets none: the require
// then throws NO_PREBUILT with the path that was looked at, and the loader of the package says what does not work.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** platform-arch of dist/native → which files serve there, best first */
const PLATFORMS = {
  'linux-x64': [/./],
  'linux-arm64': [/./],
  'linux-arm': [/armv7/, /armv6/, /./],
}

/** `@serialport/bindings-cpp` → `serialport-bindings-cpp` */
const fileName = name => name.replace(/^@/, '').replace('/', '-')

/** The folder and name of the package a file belongs to. */
function packageOf(file) {
  for (let dir = dirname(file); dir !== dirname(dir); dir = dirname(dir)) {
    const path = join(dir, 'package.json')
    if (!existsSync(path)) continue
    const { name } = JSON.parse(readFileSync(path, 'utf8'))
    if (name) return { dir, name }
  }
  throw new Error(`E_BUILD: ${file} belongs to no package`)
}

/** The esbuild plugin. `found` is filled with the packages that are in the bundle: name → folder. */
export const prebuiltPackages = found => ({
  name: 'prebuilt-packages',
  setup(build) {
    build.onResolve({ filter: /^node-gyp-build$/ }, ({ importer }) => {
      const { dir, name } = packageOf(importer)
      found.set(name, dir)
      return { path: fileName(name), namespace: 'prebuilt' }
    })
    build.onLoad({ filter: /.*/, namespace: 'prebuilt' }, ({ path }) => ({
      contents: `
        const { join } = require('node:path')
        module.exports = () => {
          const file = join(__dirname, 'native', process.platform + '-' + process.arch, ${JSON.stringify(`${path}.node`)})
          const loaded = { exports: {} }
          try { process.dlopen(loaded, file) } catch (cause) {
            throw Object.assign(new Error(file + ' does not load: ' + cause.message), { code: 'NO_PREBUILT' })
          }
          return loaded.exports
        }`,
      loader: 'js',
    }))
  },
})

/** The file of a package for one platform, or undefined. */
function prebuiltFile(dir, platform, wanted) {
  const folder = join(dir, 'prebuilds', platform)
  if (!existsSync(folder)) return undefined
  const files = readdirSync(folder).filter(name => name.endsWith('.node') && !name.includes('musl'))
  const best = wanted.map(pattern => files.find(name => pattern.test(name))).find(Boolean)
  return best && join(folder, best)
}

/** Lays the files of the packages found beside the bundle. */
export function installPrebuilt(found, dist, say = () => undefined) {
  for (const [name, dir] of found) {
    for (const [platform, wanted] of Object.entries(PLATFORMS)) {
      const file = prebuiltFile(dir, platform, wanted)
      if (!file) {
        say(`${name} brings nothing for ${platform}`)
        continue
      }
      mkdirSync(join(dist, 'native', platform), { recursive: true })
      copyFileSync(file, join(dist, 'native', platform, `${fileName(name)}.node`))
    }
  }
}
