// What making an image needs from the machine: all missing programs are named at once, and programs of /usr/sbin are found by ordinary users, whose
// PATH has no such folder on Debian.
// Needs: image
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir } from '../lib/gateway'

interface Modules {
  checkTools(recipe: object, path?: string): void
  makeImage(root: string, options: object): string
  withoutDelay(program: Buffer): Buffer
  tool(debian: string, program: string, args: string[], options?: object): string
}
const load = async (name: string): Promise<Modules> => (await import(join(root, 'src/build', name))) as Modules

test('every missing program is named, with one command that installs their packages', async () => {
  const { checkTools } = await load('image/tools.mjs')
  const some = tempDir()
  for (const name of ['xz', 'zstd', 'mcopy']) writeFileSync(join(some, name), '')
  const said = (recipe: object): string => {
    try {
      checkTools(recipe, some)
    } catch (error) {
      return (error as Error).message
    }
    return ''
  }
  assert.match(
    said({}),
    /^E_TOOL: dpkg-deb, mmdebstrap, .*mksquashfs, .* missing: sudo apt-get install dpkg mmdebstrap /,
  )
  assert.doesNotMatch(said({}), /\b(xz|zstd|mcopy|dtc|make)\b/)
  const all = { chip: 'bcm2711', chooser: 'firmware' }
  assert.match(said(all), / device-tree-compiler make$/)
  const missing = said(all).replace(/^E_TOOL: | missing: .*$/g, '')
  for (const name of missing.split(', ')) writeFileSync(join(some, name), '')
  checkTools(all, some)
})

test('a program of /usr/sbin is found where the PATH does not have that folder', async () => {
  const { tool } = await load('node-runtime.mjs')
  const own = join(tempDir(), 'bin')
  mkdirSync(own)
  assert.match(tool('fdisk', 'sfdisk', ['--version'], { env: { PATH: own } }), /sfdisk/)
})

test('an image that takes no updates says so, and how to make a key, before it is built', async () => {
  const { makeImage } = await load('image/index.mjs')
  const from = tempDir()
  const said = (options: object): string => {
    const lines: string[] = []
    const about = { board: 'rpi-4', version: '1.0.0', builtAt: 0, out: from, say: (line: string) => lines.push(line) }
    // here is no dist/, and maybe no tool for images
    assert.throws(() => makeImage(from, { ...about, ...options }), /ENOENT|E_TOOL/)
    return lines.filter(line => !line.startsWith('package of os-node')).join('\n')
  }
  assert.match(said({}), /^this image takes no updates; .*openssl genpkey -algorithm ed25519 .*--sign/)
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  writeFileSync(join(from, 'own.pem'), privateKey.export({ format: 'pem', type: 'pkcs8' }))
  writeFileSync(join(from, 'pub.pem'), publicKey.export({ format: 'pem', type: 'spki' }))
  assert.equal(said({ sign: join(from, 'own.pem') }), '')
  assert.equal(said({ trust: [join(from, 'pub.pem')] }), '')
})

test('U-Boot does not look for a key, its program keeps its length, and an unknown U-Boot is refused', async () => {
  const { withoutDelay } = await load('image/index.mjs')
  const changed = (text: string): string => withoutDelay(Buffer.from(text)).toString()
  assert.equal(
    changed('a;\0bootcmd=x\0bootdelay=2\0baudrate=1\0preboot=usb;\0c=d;\0\0code;\0'),
    'a;\0bootcmd=x\0bootdelay=-2\0baudrate=1\0preboot=usb\0c=d;\0\0code;\0',
  )
  for (const unknown of ['code\0bootdelay=20\0preboot=usb;\0\0', 'code\0bootdelay=2\0preboot=usb\0\0code;\0'])
    assert.throws(() => changed(unknown), /E_IMAGE/)
})
