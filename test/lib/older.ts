// An earlier version of this project, built from its commit: its bundle, and its Debian package. Built once, and kept in .build.
// Needs: history
import { join } from 'node:path'
import { buildCommit } from './build-commit'
import { root } from './gateway'

/** the first with the SD image, of 23 November 2026 */
const OLDER = 'f663b671c19ce93cfdf7bb05b2d2e2a14cec14ec'

interface Runtime {
  madeOnce(dir: string, make: (fresh: string) => void): string
}
interface Maker {
  makePackages(root: string, options: object): string[]
}

/** The folder of the earlier version, with its dist/. */
async function folderOfOlder(): Promise<string> {
  const { madeOnce } = (await import(join(root, 'src/build/node-runtime.mjs'))) as Runtime
  return madeOnce(join(root, '.build', `older-${OLDER}`), fresh => buildCommit(OLDER, fresh))
}

/** The bundle of the earlier version. */
export const olderBundle = async (): Promise<string> => join(await folderOfOlder(), 'dist/os-node.js')

/** Makes the Debian package of the earlier version for `arch` in `out`; returns its path. */
export async function olderPackage(version: string, builtAt: number, out: string, arch: string): Promise<string> {
  const folder = await folderOfOlder()
  const { makePackages } = (await import(join(folder, 'src/build/deb.mjs'))) as Maker
  const [path] = makePackages(folder, { version, builtAt, archs: [arch], quick: true, out, say: () => undefined })
  return path!
}
