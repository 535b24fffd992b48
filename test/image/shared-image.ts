// The images of the emulated boards. Packing one takes half a minute, so the files of a run share it.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { orElse } from '../../src/lib/errors'
import { removeDir, root, until } from '../lib/gateway'

interface Maker {
  makeImage(root: string, options: object): string
  withoutDelay(program: Buffer): Buffer
}
const UBOOT = '/usr/lib/u-boot/qemu_arm64/u-boot.bin'

export const BUILT_AT = Date.parse('2026-01-02T03:04:05Z')
/** for an image that another file makes */
const LATEST_MS = 600_000

/**
 * Makes the image of `kind`, and the two keys that sign its updates (`key`, `next`), once in a run of the tests, whose temporary folder it is in; without one in `place`.
 * `shipped`: its system is compressed as `npm run image` does it. Returns the folder.
 */
export async function imageOf(kind: string, trial: string, place: string, shipped = false): Promise<string> {
  const { makeImage } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  const out = join(
    basename(tmpdir()).startsWith('os-run-') ? tmpdir() : place,
    `image-${kind}-${trial}${shipped ? '-shipped' : ''}`,
  )
  const made = join(out, 'made')
  while (!orElse(false, () => mkdirSync(out) === undefined)) {
    await until('the image', () => existsSync(made) || !existsSync(out), LATEST_MS)
    if (existsSync(made)) return out
  }
  try {
    const [sign, next] = ['key', 'next'].map(name => join(out, name)) as [string, string]
    for (const key of [sign, next])
      execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', key], { stdio: 'pipe' })
    const about = {
      board: kind,
      version: '1.2.3',
      builtAt: BUILT_AT,
      quick: true,
      quickSystem: !shipped,
      trial,
      say: () => {},
    }
    makeImage(root, { ...about, out, sign, trust: [next] })
    writeFileSync(made, '')
    return out
  } catch (error) {
    removeDir(out)
    throw error
  }
}

/** Writes the U-Boot of emulated boards, as an image has that of a real one. */
export async function writeUboot(to: string): Promise<void> {
  const { withoutDelay } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  writeFileSync(to, withoutDelay(readFileSync(UBOOT)))
}

/**
 * The update that a later build of the image in `made` writes: the file usr/lib/firmware/changed is new in its system, and the second key
 * signs it. Returns its path.
 */
export async function laterUpdate(made: string, kind: string, trial: string, version: string): Promise<string> {
  const { makeImage } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  const [firmware, out] = ['later-files', 'later'].map(name => join(made, name)) as [string, string]
  for (const folder of [firmware, out]) mkdirSync(folder)
  writeFileSync(join(firmware, 'changed'), 'by a later build')
  const about = { board: kind, version, builtAt: BUILT_AT, quick: true, trial, say: () => {} }
  makeImage(root, { ...about, firmware, out, sign: join(made, 'next'), trust: [join(made, 'key')] })
  return join(out, `os-node-${kind}-${version}.update`)
}
