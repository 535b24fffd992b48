// The images of the emulated boards. Packing one takes half a minute, so the files of a run share it.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { orElse } from '../../src/lib/errors'
import { removeDir, root, until } from '../lib/gateway'

interface Maker {
  makeImage(root: string, options: object): string
}

export const BUILT_AT = Date.parse('2026-01-02T03:04:05Z')
/** for an image that another file makes */
const LATEST_MS = 600_000

/**
 * Makes the image of `kind`, and the key that signs its updates, once in a run of the tests, whose temporary folder it is in; without one in `place`.
 * Returns the folder.
 */
export async function imageOf(kind: string, trial: string, place: string): Promise<string> {
  const { makeImage } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  const out = join(basename(tmpdir()).startsWith('os-run-') ? tmpdir() : place, `image-${kind}-${trial}`)
  const made = join(out, 'made')
  while (!orElse(false, () => mkdirSync(out) === undefined)) {
    await until('the image', () => existsSync(made) || !existsSync(out), LATEST_MS)
    if (existsSync(made)) return out
  }
  try {
    const sign = join(out, 'key')
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', sign], { stdio: 'pipe' })
    makeImage(root, { board: kind, version: '1.2.3', builtAt: BUILT_AT, quick: true, out, sign, trial, say: () => {} })
    writeFileSync(made, '')
    return out
  } catch (error) {
    removeDir(out)
    throw error
  }
}
