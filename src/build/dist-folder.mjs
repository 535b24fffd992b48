// Builds in dist.new, then renames file by file into dist, so that a running gateway can always load its files. A build that fails leaves
// dist unchanged.
// .build/made.json has the inputs and the files of the build, so that `npm start` builds only if one of them changed. Files are compared by
// size and times: reading all of them takes a small board seconds.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { compilerFor, PROCESSORS } from '../../drivers/native/build.mjs'

export const FRESH = 'dist.new'
/** images, updates and packages in dist, with their checksums and lists: their names have a version */
export const ARTEFACT = /^os-node[-_].*\d+\.\d+\.\d+/

/** Sources of the bundle and of the files next to it; the tests belong to them, since the self-test has their vectors and names. */
const SOURCES = ['build.mjs', 'package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.types.json']
const FOLDERS = ['src', 'drivers', 'board', 'test']
/** folders that may be missing: a build then leaves something out */
const MAY_LACK = ['node_modules', 'node_modules/@stoprocent']

/** Files below a folder, relative to the project's root, sorted. */
export const filesBelow = (root, folder) =>
  existsSync(join(root, folder))
    ? readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
        .filter(entry => entry.isFile())
        .map(entry => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
        .sort()
    : []

function stampOf(root, file) {
  const { size, mtimeMs, ctimeMs } = statSync(join(root, file))
  return [size, mtimeMs, ctimeMs]
}

const stampsOf = (root, files) => Object.fromEntries(files.map(file => [file, stampOf(root, file)]))

/** Inputs of a build that are not project files: Node, the compilers, and variables for both. */
const tools = () => [
  process.versions,
  Object.keys(PROCESSORS).map(arch => compilerFor(arch).cc ?? null),
  ['CC', 'SOURCE_DATE_EPOCH'].map(name => process.env[name] ?? null),
]

/** The present inputs of a build, as one text. */
export function inputs(root) {
  const packages = MAY_LACK.filter(dir => existsSync(join(root, dir))).map(dir => readdirSync(join(root, dir)).sort())
  const files = [...SOURCES, ...FOLDERS.flatMap(folder => filesBelow(root, folder))]
  return JSON.stringify({ tools: tools(), packages, files: stampsOf(root, files) })
}

const madeFile = root => join(root, '.build/made.json')

/** Whether dist is the result of a build from the inputs `made`. */
export function isMade(root, made) {
  try {
    const kept = JSON.parse(readFileSync(madeFile(root), 'utf8'))
    const files = Object.keys(kept.files)
    return kept.made === made && JSON.stringify(stampsOf(root, files)) === JSON.stringify(kept.files)
  } catch {
    return false // never built, or a file is gone
  }
}

/** Makes the empty folder of a new build. */
export function begin(root) {
  rmSync(madeFile(root), { force: true })
  rmSync(join(root, FRESH), { recursive: true, force: true })
  mkdirSync(join(root, FRESH))
}

/** Moves the files of dist.new to dist, the bundle last, and removes those of earlier builds, except images and packages. */
export function publish(root, made) {
  const fresh = filesBelow(root, FRESH).map(file => relative(FRESH, file))
  const isBundle = file => file === 'os-node.js'
  for (const file of [...fresh].sort((a, b) => isBundle(a) - isBundle(b))) {
    mkdirSync(dirname(join(root, 'dist', file)), { recursive: true })
    renameSync(join(root, FRESH, file), join(root, 'dist', file))
  }
  rmSync(join(root, FRESH), { recursive: true })
  for (const entry of readdirSync(join(root, 'dist'), { recursive: true }))
    if (!ARTEFACT.test(entry) && !fresh.some(file => file === entry || file.startsWith(entry + sep)))
      rmSync(join(root, 'dist', entry), { recursive: true, force: true })
  const placed = fresh.map(file => join('dist', file))
  writeFileSync(madeFile(root), JSON.stringify({ made, files: stampsOf(root, placed) }))
}
